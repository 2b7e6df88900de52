"""The scripts of programs/scripts, written as public training code is: what each is, what removes a cause, what applies a remedy."""

from generate import Plan
from generated_runs import Script

STEP_ONLY = ("all", ("--step-only",))
WORKERS = (r"num_workers=(\d+)", ("--num-workers", "{n}"))


def plan(loader: str, source: str = "memory", **more) -> Plan:
    return Plan(-1, "script", loader=loader, source=source, **more)


SCRIPTS = (
    Script("mnist", plan("processes", workers=1, persistent=False, epoch_steps=60, validation_steps=10, validation_ms=0.1),
           removed=(("validation", ("--no-test",)), ("restart", ("--persistent",)), STEP_ONLY),
           fixes=((r"^DataLoader\(persistent_workers", ("--persistent",)), (r"num_workers=(\d+).*now 0", ("--test-workers", "{n}")),
                  WORKERS)),
    Script("speech_commands", plan("inline"), removed=(("cpu", ("--step-only",)), STEP_ONLY), fixes=(WORKERS,)),
    Script("word_language_model", plan("none"), removed=(("cpu", ("--step-only",)),)),
    Script("imagenet", plan("processes", "photos"), removed=(("cpu", ("--step-only",)), STEP_ONLY),
           fixes=((r"num_workers=(\d+)", ("--workers", "{n}")),)),
    Script("own_queue", plan("queue_threads", workers=4, is_python=True), removed=(("serial", ("--processes", "2")), STEP_ONLY),
           fixes=((r"worker processes.*num_workers=(\d+)", ("--processes", "{n}")), (r"num_workers=(\d+)", ("--threads", "{n}")))),
    Script("h5_rows", plan("processes", "rows"), removed=(("cpu", ("--step-only",)), STEP_ONLY), fixes=(WORKERS,)),
    Script("token_stream", plan("iterable", "small", workers=1), removed=(("cpu", ("--step-only",)), STEP_ONLY), fixes=(WORKERS,)),
    Script("finetune", plan("inline", checkpoint_every=15), removed=(("checkpoint", ("--save-steps", "0")), STEP_ONLY),
           fixes=((r"^write checkpoints", ("--save-steps", "0")),)),
)
