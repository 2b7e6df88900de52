"""What base/ and its like do once is done nowhere else.

Each primitive is a row of the table: the words by which a copy of it is known, the files where it lives, and every other file that has such
words, with the reason. The lists are complete both ways: a new file with the words fails, and so does one named here that no longer has
them. Each row brings copies that nobody has written, which it must find, and harmless lines, which it must not.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import pytest
from c_text import TOKEN, name_of, sources, without, words_of

# read(2), write(2) and their kin; also their numbers, and their addresses
READ_WRITE = (r"(?<![\w.>])(?:read|write|readv|writev|fread|recv|recvfrom|recvmsg)\s*\(|\bp(?:read|write)(?:64|v|v2|v64|v64v2)?\b"
              r"|\b(?:SYS|__NR)_p?(?:read|write)\w*")
WAITS = r"\b(?:pthread|thread)_cond_init\b|\bPTHREAD_COND_INITIALIZER\b|\b(?:sem|cnd)_init\b"
LISTS = r"\b(?:\w*last|\w*tail)\)*->\w*next\w*\s*=(?!=)"
HALF = r"\b_Float16\b|\b__fp16\b|cvt(?:ss_sh|sh_ss|ph_ps|ps_ph)|\b0x(?:7c00|7e00|38800000|477ff000)\b"
EDITS = r"\b(\w+)\[(\w+)(?:\s*-\s*1)?\]\s*[!=]=\s*(?!\1\b)\w+\[(?!\2\b)\w+(?:\s*-\s*1)?\]|levenshtein|damerau"
ROUND = r"\+[^;&|?,]{1,50}\)\s*&\s*~|\+\s*\(?(\w+)\s*-\s*1\)?\)\s*/\s*\1\s*\*\s*\1\b|\+ (\d+)\) / \d+ \* \d+"

SYSTEM_CALLS = "a table of the kernel's calls by their numbers"


@dataclass
class Primitive:
    name: str
    words: str
    homes: set[str]
    copies: list[str]
    harmless: list[str]
    others: dict[str, str] = field(default_factory=dict)

    def found_in(self, text: str) -> list[str]:
        return [match.group() for match in re.finditer(self.words, words_of(text), re.I if self.words in (HALF, EDITS) else 0)]


PRIMITIVES = [
    Primitive(
        "dynlib", r"\bdl(?:m?open|v?sym)\b", {"base/dynlib.c"},
        ["void *l = dlopen(name, RTLD_NOW);", "f = dlsym(l, name);", "f = dlvsym(l, name, v);",
         "static void *(*look)(void *, const char *) = dlsym;"],
        ["dynlib_open(&library, &calls, e); /* not dlopen( */", 'say("dlopen");'],
    ),
    Primitive(
        "sync", r"\b(?:SYS_|__NR_)?f(?:data)?sync\b", {"base/file/file.c"},
        ["if (fsync(fd) != 0)", "fdatasync(dirfd(d));", "syscall(SYS_fsync, fd);", "int (*sync)(int) = fsync;"],
        ["file_sync(fd, e);", "file_sync_data(fd, e);", "syncfs(fd); /* all files at once */"],
        {"hdf5/sandbox.c": SYSTEM_CALLS, "host/proc/proc_wait.c": SYSTEM_CALLS},
    ),
    Primitive(
        "reading and writing all of it", READ_WRITE, {"base/file/file.c"},
        ["while ((n = read(fd, p, left)) > 0)", "while (n) { ssize_t got = pread(fd, p, n, at); }", "pwritev2(fd, v, 1, 0, 0);",
         "if (write(fd, p, n) < 0) return;", "fread(p, 1, n, f);", "syscall(SYS_pread64, fd, p, n, at);", "got = recv (fd, p, n, 0);",
         "ssize_t (*how)(int, void *, size_t, off_t) = pread;"],
        ["rows_pread(o, at); l->write(ctx, line); log.write(line); io->read[i](x); spread(w);", "file_write_all(fd, p, n, e);",
         'puts("read(2)"); /* read(fd) */'],
        {
            "cache/cache_entry.c": "reads that must not block (RWF_NOWAIT)",
            "codec/array/hdf5/hdf5_answer.c": "each wait for the helper's socket has the rest of one time limit",
            "hdf5/sandbox_try.c": "tries what the sandbox refuses",
            "host/proc/proc_file.c": "the first short answer of /proc is its end: asking again would cost a second answer",
            "host/proc/proc_wait.c": SYSTEM_CALLS,
            "hdf5/sandbox.c": SYSTEM_CALLS,
            "io/file/file_now.c": "reads that must not block (RWF_NOWAIT)",
            "io/file/file_read.c": "the loop of io/: one read of several parts, which closing ends in between",
            "io/file/io_uring.c": "wakes a thread by a number in an eventfd",
            "io/s3/loop/s3_sockets.c": "wakes a thread by a number in an eventfd",
            "jobs/doctor/doctor_probe.c": "times single reads",
            "jobs/watch/watch_child.c": "one number through a pipe between fork and exec; signals from a signalfd",
            "meter/marks.c": "one append per group of marks: the rest of a torn one must not follow later",
            "meter/recording.c": "a stream (FILE), which loops by itself",
        },
    ),
    Primitive(
        "queue: waiting", WAITS, {"base/queue.c", "base/thread.c", "base/thread.h"},
        ["pthread_cond_init(&q->came, NULL);", "thread_cond_init(&q->came);", "pthread_cond_t c = PTHREAD_COND_INITIALIZER;",
         "sem_init(&s, 0, 0);", "cnd_init(&c);"],
        ["queue_init(&q);", "thread_cond_wait_until(&c, &l, t);"],
        {
            "cache/cache.c": "waits for states of its table: a claim is over, room to fill, nobody in it any more",
            "cache/cache_team.c": "threads are started when none is idle, and go when nothing can become work again",
            "codec/array/hdf5/hdf5_pool.c": "helpers that come free, any of them, within a time limit",
            "device/emulated.c": "a device's clock and two engines that wait for points of each other",
            "feed/engine/crew.c": "workers choose among loaders, the one with the most urgent load first",
            "feed/engine/feed_open.c": "planner and consumer wait for states of slots",
            "feed/group/chunk_cache.c": "whoever needs a chunk that another thread decompresses waits for that one",
            "io/file/io_pread.c": "the turn of a request depends on goes_first; threads are started when none is idle",
            "io/file/io_uring.c": "start and end of the one thread; requests wake it through the ring",
            "io/s3/loop/s3_loop.c": "the end of the one thread; requests wake it through its sockets",
            "io/wrap/io_wrap.c": "requests in the order of the times they are due",
            "jobs/build/build_ahead.c": "a pause that can be ended; what to look at is a number, not a list",
            "jobs/build/build_crew.c": "tasks are split, stolen and joined in the order of files",
            "jobs/pack/pack_reader.c": "made in any order, taken in the order of the catalog, and never more than there is room for",
            "jobs/stage/stage_copy.c": "room for reads in flight, by count and by bytes; what came is in a queue of base/",
            "monitor/monitor.c": "a clock that can be stopped",
            "python/loader_gate.c": "a lock that can be had by many, or by one",
            "python/py_ahead.c": "batches made in any order, handed out in theirs",
        },
    ),
    Primitive(
        "queue: a list with its end", LISTS, {"base/queue.c"},
        ["q->last->next = item;", "if (q->tail) q->tail->next = x;", "((struct load *)s->ready_last)->next = l;",
         "x->asked_last->next_store = r;"],
        ["if (q->last->next == NULL)", "at = q->last->next;"],
        {
            "cache/cache.c": "under the cache's one lock, with the states that waiting depends on",
            "device/emulated_engine.c": "the head is looked at before it is taken: it may wait for the other engine",
            "feed/engine/planner.c": "under the loader's lock, as the slots are",
            "feed/engine/ready_queue.c": "under the crew's lock: two lists per slot, urgent ones first",
            "io/io_shared.c": "requests of a process that was forked, or is closed, in one go",
            "jobs/build/build_chunk.c": "under the build's lock; members leave from its middle",
        },
    ),
    Primitive(
        "a walk over chunked rows", r"\bdecompress_chunk\s*\(", {"feed/array/array_walk.c"},
        ["rc = decompress_chunk(&u, layout, skips, bytes, n, out, e);"],
        ["decompress_close(&u);"],
        {"codec/array/hdf5/decompress.c": "it is made here", "codec/array/hdf5/decompress.h": "it is declared here"},
    ),
    Primitive(
        "half floats", HALF, {"base/half.c"},
        ["_Float16 h = (_Float16)f;", "return _cvtss_sh(f, 0);", "__m256 v = _mm256_cvtph_ps(h);", "return sign | 0x7C00;",
         "if (u < 0x38800000)"],
        ["half_to_f32(h);", "x = 0x7c01;"],
        {
            "codec/array/convert/array_convert_avx2.c": "eight at a time, by the processor; compared with base/half in tests/codec",
            "transform/image/kernels/store_avx2.c": "eight at a time, by the processor; compared with base/half in tests/transform",
        },
    ),
    Primitive(
        "edit distance", EDITS, {"base/text/edit_distance.c"},
        ["d[i][j] = least(d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] != b[j - 1]));", "cost = x[i] == y[j] ? 0 : 1;",
         "int levenshtein(const char *a, const char *b);"],
        ["if (a[i] != b[i])", "if (a[i] == a[j])", "while (a[n - 1] == b[n - 1])"],
    ),
    Primitive(
        "submit and wait", r"->submit\s*\(", {"io/io_wait.c"},
        ["io->ops->submit(io, &r, false); pthread_cond_wait(&c, &l);"],
        ["io_wait_submit(w, 0, &r, false);"],
        {
            "cache/cache_fetch.c": "a back-end around another: its own completion goes on",
            "feed/array/gather_reads.c": "the engine does not wait: the load goes away and comes back",
            "feed/engine/planner.c": "the engine does not wait: the load goes away and comes back",
            "io/wrap/io_merge.c": "a back-end around another: its own completion goes on",
            "io/wrap/io_wrap.c": "a back-end around another: its own completion goes on",
            "jobs/stage/stage_copy.c": "many writers take what comes and may ask again; nobody waits for a certain read",
        },
    ),
    Primitive(
        "rounding up to a unit", ROUND, {"base/round_up.h"},
        ["return (n + 63) & ~(size_t)63;", "at = (at + ALIGN - 1) & ~(uint64_t)(ALIGN - 1);", "return (n + unit - 1) / unit * unit;",
         "x = (n + (unit - 1)) / unit * unit;", "bytes = (bytes + 7) / 8 * 8;", "((uint64_t)st.st_size + 4095) & ~UINT64_C(4095)"],
        ["round_up(n, 64);", "pieces = (n + PIECE - 1) / PIECE;", "flags & ~O_NONBLOCK", "at & ~(size_t)63"],
    ),
    Primitive(
        "labels into their places", r"\blabels_copy\s*\(", {"feed/engine/load.c", "feed/engine/labels.c", "feed/labels.h"},
        ["return labels_copy(&f->labels, selected, sample, to, e);"],
        ["load_copy_labels(f, s, place, 0, selected, sample, e);"],
        {"feed/single/image_load.c": "for steps that change labels: their places, or memory that is forgotten",
         "feed/single/image_size_probe.c": "for steps that look at labels, before there is a batch"},
    ),
]


@pytest.mark.parametrize("primitive", PRIMITIVES, ids=lambda p: p.name)
def test_each_primitive_exists_once(primitive: Primitive) -> None:
    found = {name_of(path): words for path in sources(".") if (words := primitive.found_in(path.read_text()))}
    known = primitive.homes | primitive.others.keys()
    assert {name: words for name, words in found.items() if name not in known} == {}, "a copy? see the file where this lives"
    assert known - found.keys() == set(), "named here, but they no longer have such words"


@pytest.mark.parametrize("primitive", PRIMITIVES, ids=lambda p: p.name)
def test_a_new_copy_would_be_seen(primitive: Primitive) -> None:
    assert [text for text in primitive.copies if not primitive.found_in(text)] == []
    assert [text for text in primitive.harmless if primitive.found_in(text)] == []


# ---- JSON: base/text/json_writer.c is the only one that puts brackets and quotes together ----

SENTENCES = {  # words for people, with a name in quotes
    r'"the array \"%s\": %s"',
    r'"weights=\"balanced\": the label %lld is not a class number from 0 to %lld"',
}
EMPTY = {'"{}"', '"[]"'}
NOT_JSON = {  # what looks like it, in files that have reasons
    "codec/array/npy.c": {"'\"'"},  # the end of a Python string
    "dataset/manifest/csv.c": {r'"\""'},  # cells in quotes
    "feed/engine/labels.c": {'"]"'},  # the end of pose[2]
    "hdf5/helper.c": {r'" \""', r'"\""'},  # names in a message
    "io/s3/keys/s3_web.c": {r'"\"%s\""', '"]"'},  # looking for a key; the end of an IPv6 address
    "io/s3/s3_xml.c": {"'\"'"},  # &quot;
    "jobs/decode/decode_table.c": {r'",\"\r\n"', r'"\""', r'"\"\""'},  # CSV
}
COMPARED = re.compile(r"(?:[=!]=|\bcase)\s*$|\b(?:take|strchr|strrchr|memchr)\((?:[^()]|\([^()]*\))*$")
JSON_BY_HAND = re.compile(
    r'":|[{\[]"|"[\]}]'  # a key and its colon, text at either end of an object or an array
    r'|^[{}\[\]",:]*[{}\[\]"][{}\[\]",:]*$'  # brackets and quotes alone
    r'|^,?"[^"]*",?$'  # something in quotes, alone
    r"|(?<!\w)[{\[]%"  # the first number of an array
)


def body_of(literal: str) -> str:
    """What a string holds, without blanks; letters for control characters."""
    text = re.sub(r"\\[nrt]|\s", "", literal[1:-1])
    return re.sub(r"\\(x[0-9a-fA-F]{2}|.)", lambda m: m[1] if m[1] in ('"', "'", "\\") else "x", text)


def json_by_hand(text: str) -> list[str]:
    """String literals that are a piece of JSON, and brackets or quotes as characters that are not compared with anything."""
    found = []
    text = without(("comment",), text)
    for match in TOKEN.finditer(text):
        literal = match.group()
        if match.lastgroup == "string":
            if literal not in SENTENCES | EMPTY and JSON_BY_HAND.search(body_of(literal)):
                found.append(literal)
        elif body_of(literal) in ("{", "}", "[", "]", '"'):
            before, behind = without(("string", "char"), text[:match.start()])[-200:], text[match.end():].lstrip()
            if not COMPARED.search(before) and behind[:2] not in ("==", "!="):
                found.append(literal)
    return found


def test_json_is_written_by_one_writer() -> None:
    """A format with quotes and commas in it gets escapes, NaN or the comma before the first item wrong one day."""
    found = {name_of(path): set(by_hand) for path in sources(".") if (by_hand := json_by_hand(path.read_text()))}
    assert found.pop("base/text/json_writer.c")
    assert found == NOT_JSON


@pytest.mark.parametrize("text", [
    r'text_printf(t, ",\"files\":%llu", n);', r'say("{\"name\" : 1}");', r'put("%s\"%s\":[", comma, name);',
    r'put("\"%s\" :%d", k, n);',
    r'put("[\"%s\"]", s);', 'put("{");', 'put("}\\n");', "putchar('{');", "*p++ = '\"';", "text_append_char(t, '[');",
    r'put("\"%s\"", key); put(":");',
    r'put(",\"%s\"", name);', 'put("[%d, %d]", a, b);', 'put("[");', 'put("},\\n");', 'put("\\"");', r'put("%s: {\"a\"", x);',
])
def test_json_by_hand_would_be_seen(text: str) -> None:
    assert json_by_hand(text)


@pytest.mark.parametrize("text", [
    'J("files", n);', 'say("{}");', r'puts("<i class=\"a\">");', r'error(e, "the array \"%s\": %s", name, cause);',
    "if (c == '{' || '[' != d)",
    "case '\"':", "take(l, '{')", "memchr(s, '\"', f(n) - 1)", '/* {"a": 1} */', r'error(e, "use shuffle=\"window\"");',
    'say("indices[%llu]");',
    r'put("\x1b[%d;1H");',
])
def test_other_text_is_not_taken_for_json(text: str) -> None:
    assert json_by_hand(text) == []


# ---- functions that are written again and again ----


def bodies(text: str) -> list[str]:
    """What stands between the brackets of each function, in one line: clang-format puts both brackets into the first column."""
    lines, found, begun = without(("comment",), text).splitlines(), [], None
    for at, line in enumerate(lines):
        if line == "{" and begun is None:
            begun = at
        elif line.startswith("}") and begun is not None:
            found.append(" ".join(" ".join(lines[begun + 1:at]).split()))
            begun = None
    return found


def written_thrice(texts: dict[str, str]) -> dict[str, set[str]]:
    """Bodies of more than a trivial line, and the files that have them."""
    where: dict[str, set[str]] = {}
    for name, text in texts.items():
        for body in bodies(text):
            if len(body) > 40:
                where.setdefault(body, set()).add(name)
    return {body: names for body, names in where.items() if len(names) > 2}


def test_what_is_needed_a_third_time_has_moved_to_base() -> None:
    assert written_thrice({name_of(path): path.read_text() for path in sources(".")}) == {}


def test_a_third_copy_would_be_seen() -> None:
    body = "    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;\n    return x < y ? -1 : x > y;\n"
    texts = {f"{name}.c": f"static int {name}(const void *a, const void *b) /* {name} */\n{{\n{body}}}\n" for name in ("p", "q", "r")}
    assert [names for names in written_thrice(texts).values()] == [{"p.c", "q.c", "r.c"}]
    del texts["r.c"]
    assert written_thrice(texts) == {}
