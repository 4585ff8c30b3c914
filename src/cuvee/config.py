"""The recipe: one frozen model per step, every knob once, its unit and source beside its default."""

from __future__ import annotations

import math
import re
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from cuvee.errors import nearest

SUFFIXES = {"K": 10**3, "M": 10**6, "B": 10**9, "T": 10**12}


MOST = 1e18  # no count is larger
MIXTURES = ("proposal", "proportional", "unimax", "uniform")  # that mix leaves in mixture.json, by the names of stages


def parse_count(value: Any) -> Any:
    """`50M` -> 50,000,000 (decimal suffixes K, M, B, T), `1e12` -> 1,000,000,000,000; anything else as it is."""
    match = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)(?:[eE]\+?([0-9]{1,2})|\s*([KMBT]))\s*", value) if isinstance(value, str) else None
    if match is None:
        return value
    number = float(match[1]) * (SUFFIXES[match[3]] if match[3] else 10.0 ** int(match[2]))
    if number > MOST:
        raise ValueError(f"more than {MOST:.0e}")
    if abs(number - round(number)) > 1e-6:
        raise ValueError("not a whole number")
    return round(number)


def parse_share(value: Any) -> Any:
    """`0.1%` -> 0.001."""
    match = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*%\s*", value) if isinstance(value, str) else None
    return float(match[1]) / 100 if match else value


def _rule(value: str) -> str:
    if re.fullmatch(r"any|hits:[1-9][0-9]*|fraction:(0?\.[0-9]+|1(\.0*)?)|cut", value) is None:
        raise ValueError("write any, hits:N (N distinct features), fraction:X (of the words, over 0 to 1) or cut")
    return value


def _off(value: Any) -> Any:
    """YAML 1.1 reads an unquoted `off` as false."""
    return "off" if value is False else value


def _auto(value: Any) -> Any:
    return None if value == "auto" else value


Count = Annotated[int, BeforeValidator(parse_count), Field(ge=0, le=int(MOST))]
Share = Annotated[float, BeforeValidator(parse_share), Field(ge=0, le=1)]


class Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=(), allow_inf_nan=False)

    def identity(self) -> dict[str, Any]:
        """The whole section as JSON values: what a step hashes."""
        return self.model_dump(mode="json")


class Licenses(Section):
    allow: list[str] = []  # SPDX ids; a document under another one is an error that names its source
    on_conflict: Literal["keeper", "strictest"] = "keeper"  # strictest: drop a group if any copy is not allowed


class Source(Section):
    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")]
    path: str | Annotated[list[str], Field(min_length=1)]  # files, globs or fsspec URLs; relative to the recipe
    kind: Literal["auto", "jsonl", "parquet", "text"] = "auto"
    text: str = "text"     # a column, or a template such as "{title}\n\n{body}"
    id: str | None = None  # column of the user's own id; `id` where there is one
    url: str | None = None  # column of the address; `url` where there is one
    license: str | None = None  # SPDX id of every document ...
    license_column: str | None = None  # ... or the column that holds it
    priority: int = 0      # larger wins a duplicate
    frozen: bool = False   # wins every duplicate: an update never changes an old release


class Exclude(Section):
    """Takedown and opt-out lists, one entry a line; each applies to all copies of a text."""

    ids: str | None = None
    urls: str | None = None
    hosts: str | None = None


class Eval(Section):
    name: Annotated[str, Field(min_length=1)]
    path: str | list[str]
    fields: list[str] | None = None   # string leaves that make the record; all but ids, url, source, split, subject
    required: bool = False            # an evaluation that yields no feature stops the run
    context: str | None = None        # template of what is given, such as "{question}\n" ...
    continuation: str | None = None   # ... and of the gold answer, as "{answer}" or "{choices[answer]}": both make it a task of the swarm
    role: Literal["target", "protected", "report"] = "target"  # of the task; protected: never optimised, its score may not rise (mix.protect); report: only measured


class TrainTokenizer(Section):
    vocab: Annotated[Count, Field(ge=257, le=2**20)] = 8192  # byte-level BPE entries, the 256 bytes and the end mark included
    bytes: Count = 50_000_000  # UTF-8 bytes of the by-hash sample


class Tokenizer(Section):
    file: str | None = None             # a tokenizers JSON
    end: str = "<|endoftext|>"          # the token that ends a document
    train: TrainTokenizer = TrainTokenizer()


class Budget(Section):
    target: Count = 0  # tokens that the real training run will see
    proxy: Count = 0   # tokens that a proxy sees
    targets: Annotated[list[Annotated[Count, Field(ge=1)]], Field(max_length=3)] = []  # tokens that swarms are trained for, two or three; mix draws between them for `target`; empty: one swarm, for `target`

    @model_validator(mode="after")
    def _targets_differ(self) -> Budget:
        if len(self.targets) == 1 or len(set(self.targets)) < len(self.targets):
            raise ValueError(f"targets are two or three different budgets; got {self.targets}. For a single one leave targets out")
        return self

    @property
    def trained(self) -> list[int]:
        """Budgets that swarms stand for, the nearest to the target last (of two as near, the larger)."""
        return sorted(self.targets or [self.target], key=lambda each: (-abs(math.log(each / self.target)), each))


class Ingest(Section):
    max_bytes: Count = 64 * 2**20       # UTF-8 bytes; a longer text is quarantined `too_long`
    shard_bytes: Annotated[Count, Field(ge=1)] = 128_000_000    # UTF-8 bytes of text a shard
    meta: bool = True                   # keep every other column as JSON; without, they are not even read from Parquet
    on_bad_file: Literal["stop", "quarantine"] = "quarantine"  # a file whose stream is broken: keep what stands before the fault, or stop


class Filter(Section):
    profile: Literal["minimal"] | None = "minimal"  # None keeps everything
    min_words: Count = 20               # words; fewer is too_few_words
    max_repetition: Share = 0.5         # share of words covered by 5-grams that occurred before; more is repetition
    mode: Literal["drop", "tag"] = "drop"  # tag writes every statistic and keeps all


class Decontaminate(Section):
    rule: Annotated[str, AfterValidator(_rule)] = "any"  # any, hits:N distinct features, fraction:X of the words, or cut
    boilerplate: bool = True            # set aside features that 50 texts of 3 sources hold (design, section 5)


class Dedup(Section):
    threshold: Annotated[float, Field(gt=0, le=1)] = 0.75  # exact Jaccard of 5-grams of shingle tokens
    containment: Annotated[float, Field(gt=0, le=1)] | None = None  # shared over smaller that is a duplicate too
    keep: Literal["one", "none"] = "one"  # none: every member of a group goes
    max_shingles: Count = 4_000_000     # a longer document is compared by id and tokens only, and is `not_candidate`
    spans: Annotated[Literal["off", "paragraph", "three_sentences"], BeforeValidator(_off)] = "off"  # cut repeats of 8 words or more inside kept documents


class Embed(Section):
    model: str = "lexical"              # lexical: hashed TF-IDF and SVD, offline; else a sentence-transformers name or folder
    dimensions: Annotated[int, Field(ge=2, le=4096)] = 128  # of lexical; NMI .85-.87 on 5 and 12 classes at 128
    max_chars: Count = 8192             # characters of a document that are read
    sample: Count = 100_000             # documents that IDF and projection are fitted on, by hash
    fit: str | None = None              # a fitted file to use instead
    revision: str | None = None         # of a sentence-transformers model


class Topics(Section):
    count: Annotated[int, Field(ge=1)] | None = None  # None: min(40, max(2, sample / 1,000))
    fine: Annotated[int, Field(ge=1)] | None = None   # None: min(5,000, max(sample / 50, 4 x count))
    min_share: Share = 0.01             # of bytes, each topic at least; plain k = 40 gave a 64,533:1 size ratio
    sample: Count = 100_000             # documents that the centroids are fitted on, by hash


class Quality(Section):
    bands: Annotated[int, Field(ge=1)] = 5  # of equal bytes inside each topic; q1 worst
    target: list[str] = []              # sources whose documents are good ...
    raw: list[str] = []                 # ... against these; empty: every other source
    labels: str | None = None           # or this: JSONL with `id` or `text`, and a number `label`; larger is better
    sample: Count = 20_000              # documents a side that the head is fitted on, by hash
    min_documents: Count = 100          # a smaller domain joins the neighbouring band

    @model_validator(mode="after")
    def _says_once_what_is_good(self) -> Quality:
        if self.target and self.labels is not None:
            raise ValueError("both target and labels say what is good; keep one")
        if self.raw and not self.target:
            raise ValueError("raw is what the target is compared with; name the target sources too")
        both = sorted(set(self.target) & set(self.raw))
        if both:
            raise ValueError(f"source '{both[0]}' is both target and raw; keep one")
        return self


class Tokenize(Section):
    seq_len: Annotated[int, Field(ge=8)] = 256  # tokens; a row of the token store is one more
    pack: Literal["concat", "fit"] = "concat"  # documents joined by the end mark and cut; fit: whole where they fit, rows padded with the end mark
    heldout_share: Share = 0.001        # of a domain's documents, at least min(200, 2 %) and 16


class ProxyModel(Section):
    mlp: Literal["relu2", "swiglu"] = "relu2"  # squared ReLU (Primer, 2021), or SwiGLU with as many numbers
    tied: bool = False  # one matrix is both embedding and head
    optimizer: Literal["adamw", "muon"] = "adamw"  # of the layers' matrices; embedding and head have AdamW


class Swarm(Section):
    depth: Annotated[int, Field(ge=1)] = 4  # layers; sets width, heads, learning rate
    batch: Annotated[int, Field(ge=1)] = 16  # rows a step
    model: ProxyModel = ProxyModel()
    group: Annotated[Annotated[int, Field(ge=1)] | None, BeforeValidator(_auto)] = None  # proxies trained together; auto: 1 on CPUs, on accelerators the largest power of two that their memory holds
    gpus: Annotated[Annotated[int, Field(ge=0)] | None, BeforeValidator(_auto)] = None  # accelerators of a group; 0 trains on CPUs; auto: this machine's, or one of a Ray cluster that has some
    device_memory: Annotated[Count, Field(ge=1)] | None = None  # bytes of one accelerator, such as 80B; None: as jax says, 16B where it sees none
    procedure: Literal["ours", "regmix", "climb", "olmix"] = "ours"  # who chooses the mixtures: kernels/procedures, each with its paper's settings
    rounds: Annotated[int, Field(ge=1)] = 3  # of `ours`, at most
    stop: Annotated[float, Field(ge=0)] = 0.5  # expected improvement, in noises of a run, under which no later round is trained; 0 trains all (benchmarks/arena.py)
    runs: Annotated[int, Field(ge=10)] | None = None  # of all rounds together, 10 of them repeats and baselines; None: 2 x (topics + bands + 5) and half of that in each later round, or as many as the paper has
    task_items: Annotated[int, Field(ge=1)] = 200  # records an evaluation, by hash
    heldout_items: Annotated[int, Field(ge=1)] = 32  # held-out documents a domain, by hash; their first seq_len tokens are read
    eval_share: Share = 0.2             # of a run's training that reading held-out documents may cost; fewer are read, at least 4 a domain
    subset_documents: Annotated[int, Field(ge=1)] = 64  # documents that a domain offers at least; fewer would be a floored subset
    max_floored: Share = 0.05           # of natural tokens in floored subsets; more is an error
    scores: str | None = None           # a CSV that `cuvee swarm import` writes: scores of runs that were trained elsewhere; nothing is trained then


class Fit(Section):
    model: Literal["ensemble", "saturating", "loglinear", "lightgbm", "gp", "linear"] = "ensemble"  # how scores follow from mixtures (benchmarks/surrogates.py)
    reuse: str | None = None  # work folder of another recipe, whose runs count too where its domains are unions of these
    min_snr: float = 2.0                # SD over the swarm / SD of repeats; a task under it gets weight 0
    min_predictability: float = 0.5     # rank correlation over mixtures of scores at half of a run's tokens with those at its end; under it: weight 0


class Group(Section):
    domains: Annotated[list[str], Field(min_length=1)]  # names or globs such as t03.*
    low: Share = 0.0   # of the mixture that they hold together, at least ...
    high: Share = 1.0  # ... and at most

    @model_validator(mode="after")
    def _low_is_not_over_high(self) -> Group:
        if self.low > self.high:
            raise ValueError(f"low {self.low:g} is over high {self.high:g}")
        return self

    def holds(self, domain: str) -> bool:
        return any(fnmatchcase(domain, glob) for glob in self.domains)


class Mix(Section):
    max_epochs: Annotated[float, Field(gt=0)] = 8.0  # of any domain; repeats beyond some 4 to 16 teach little (Muennighoff 2023)
    kl: Annotated[float, Field(ge=0)] = 0.05  # pull towards the natural shares
    risk: Annotated[float, Field(ge=0)] = 1.0  # weight of the predicted SD; of what could be gained .31 is lost, .40 at 0 (26 runs, 12 domains, SNR 3, 60 swarms made from a known law)
    tasks: dict[str, Annotated[float, Field(ge=0)]] = {}  # task -> weight; empty: every evaluation alike, else held-out domains by natural share
    groups: dict[str, Group] = {}  # name -> limits on what some domains hold together; groups may overlap
    extrapolate: bool = False  # answer for a target over 2 x outside of budget.targets
    freeze: str | None = None  # a mixture.json: domains with the name and the tokens that they have there keep their proportions
    protect: dict[str, float] = {}  # task -> most that its score may lie over that of the natural mixture, in the score's unit

    @model_validator(mode="after")
    def _some_task_counts(self) -> Mix:
        if self.tasks and not any(self.tasks.values()):
            raise ValueError("tasks gives every task weight 0; leave it out, or weigh one")
        return self


class Size(Section):
    depth: Annotated[int, Field(ge=1)]  # layers; sets width, heads, learning rate
    budget_factor: Annotated[float, Field(ge=1, le=1e6)]  # its tokens over the proxy's


class Validate(Section):
    sizes: list[Size] = []  # larger than the proxy; two or more, and the proxy's own, draw a scaling curve; empty: 3/2 and twice its depth at 2 and 3 times its tokens
    seeds: Annotated[int, Field(ge=2)] = 3  # paired runs of each mixture at each size


class Stage(Section):
    tokens: Annotated[Count, Field(ge=1)] | None = None  # of the target budget; None, in the last stage alone: what the others leave
    mixture: str = "proposal"  # one of MIXTURES, or a mixture.json

    @model_validator(mode="after")
    def _mixture_is_known(self) -> Stage:
        if self.mixture not in MIXTURES and not self.mixture.endswith(".json"):
            raise ValueError(f"no mixture is named '{self.mixture}'. {nearest(self.mixture, MIXTURES)} A file ends in .json.")
        return self


class Stream(Section):
    parts: Annotated[Count, Field(ge=1)] = 1_048_576            # whole parts that weights end as, and rows of one period of the stream; fewer rows where the budget or a stage has fewer
    stages: list[Stage] = []  # one mixture after another, under epoch caps over all of them; empty: the proposal alone


class Recipe(Section):
    work: str
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    licenses: Licenses = Licenses()
    sources: Annotated[list[Source], Field(min_length=1)]
    exclude: Exclude = Exclude()
    evals: list[Eval] = []
    tokenizer: Tokenizer = Tokenizer()
    budget: Budget = Budget()
    ingest: Ingest = Ingest()
    filter: Filter = Filter()
    decontaminate: Decontaminate = Decontaminate()
    dedup: Dedup = Dedup()
    embed: Embed = Embed()
    topics: Topics = Topics()
    quality: Quality = Quality()
    tokenize: Tokenize = Tokenize()
    swarm: Swarm = Swarm()
    fit: Fit = Fit()
    mix: Mix = Mix()
    validation: Validate = Field(default=Validate(), alias="validate")
    stream: Stream = Stream()

    @model_validator(mode="after")
    def _names_are_unique(self) -> Recipe:
        for what, entries in (("source", self.sources), ("evaluation", self.evals)):
            names = [entry.name for entry in entries]
            twice = sorted({name for name in names if names.count(name) > 1})
            if twice:
                raise ValueError(f"two {what}s are named '{twice[0]}'; give each its own name")
        return self

    @model_validator(mode="after")
    def _stages_fill_the_budget(self) -> Recipe:
        stages, target = self.stream.stages, self.budget.target
        if not stages:
            return self
        open_ends = [number for number, stage in enumerate(stages[:-1]) if stage.tokens is None]
        if open_ends:
            raise ValueError(f"stream: stage {open_ends[0]} has no tokens; only the last one may leave them out")
        total = sum(stage.tokens or 0 for stage in stages)
        if total > target - self.tokenize.seq_len if stages[-1].tokens is None else total != target:
            raise ValueError(f"stream: the stages hold {total:,} tokens, budget.target is {target:,}. Make them equal, "
                             "or leave out the tokens of the last stage, which then takes the rest")
        return self

    @property
    def protected(self) -> dict[str, float]:
        """Task -> most that its score may lie over that of the natural mixture: mix.protect, and 0 for evaluations of that role."""
        return {each.name: 0.0 for each in self.evals if each.role == "protected"} | self.mix.protect

    @model_validator(mode="after")
    def _roles_are_kept(self) -> Recipe:
        for each in self.evals:
            if each.role != "target" and each.continuation is None and self.swarm.scores is None:
                raise ValueError(f"evaluation '{each.name}' has the role {each.role}, and no continuation that would make it a task")
            if each.role != "target" and self.mix.tasks.get(each.name):
                raise ValueError(f"mix.tasks weighs '{each.name}', whose role is {each.role}; make it a target, or leave it out")
            if each.role == "report" and each.name in self.mix.protect:
                raise ValueError(f"mix.protect limits '{each.name}', whose role is report; make it protected, or leave it out")
        return self

    @model_validator(mode="after")
    def _scores_are_of_one_target(self) -> Recipe:
        if self.swarm.scores is not None and self.budget.targets:
            raise ValueError("swarm.scores has runs for one target; leave budget.targets out, or fit and mix several swarms from CSV files")
        return self

    @property
    def larger_sizes(self) -> list[Size]:
        """The sizes of validation, as given or from the proxy's depth."""
        depth = self.swarm.depth
        return self.validation.sizes or [Size(depth=(3 * depth + 1) // 2, budget_factor=2), Size(depth=2 * depth, budget_factor=3)]

    @model_validator(mode="after")
    def _sizes_are_larger(self) -> Recipe:
        sizes = [(size.depth, size.budget_factor) for size in self.validation.sizes]
        for depth, factor in sizes:
            if depth < self.swarm.depth or (depth, factor) == (self.swarm.depth, 1):
                raise ValueError(f"validate.sizes: depth {depth} at {factor:g} times the proxy's tokens is not larger than the proxy "
                                 f"(swarm.depth = {self.swarm.depth}); raise depth or budget_factor")
        if len(set(sizes)) < len(sizes):
            raise ValueError("validate.sizes: two sizes are alike; leave one out")
        return self

    def standing_for(self, target: int) -> Recipe:
        """The recipe of the swarm that stands for this target, one of budget.trained."""
        return self.model_copy(update={"budget": self.budget.model_copy(update={"target": target})})

    @model_validator(mode="after")
    def _one_budget_where_runs_are_given(self) -> Recipe:
        """Runs of another swarm, or another trainer, were made for one target."""
        given = [name for name, value in (("fit.reuse", self.fit.reuse), ("swarm.scores", self.swarm.scores)) if value is not None]
        if given and self.budget.targets:
            raise ValueError(f"{given[0]} holds runs for one budget, and budget.targets names {len(self.budget.targets)}; leave one of the two out")
        return self

    @model_validator(mode="after")
    def _quality_names_sources(self) -> Recipe:
        names = {source.name for source in self.sources}
        for name in [*self.quality.target, *self.quality.raw]:
            if name not in names:
                raise ValueError(f"quality: no source is named '{name}'. {nearest(name, names)}")
        if self.quality.target and names <= set(self.quality.target):
            raise ValueError("quality: every source is a target; leave out those that it is to be compared with")
        return self
