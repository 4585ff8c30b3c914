from cuvee.cli import main

main()
