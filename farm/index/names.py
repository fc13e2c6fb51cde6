"""Every Redis key of the farm is spelled here, or built from the prefix below in a Lua file that says so.

All keys of a namespace share one hash tag, so that a cluster keeps them on one node. ``g`` is a generation (0 holds
private entries), ``key`` the 32 bytes of an operator's key, ``ref`` is ``g:key``, ``job`` an id, ``run`` is
``job@incarnation``.

    key              type    what                                                        ends
    meta             hash    generation, bytes, private_bytes, counters, last_token, v:*  never
    dropped:g        hash    key -> token of its entry that was dropped while jobs are interested  entry, count 0
    generations      zset    every generation that has entries                           never
    e:g              hash    key -> record                                               drop, evict
    near:g           hash    type and slot of its tensors -> latest key published; a hint    drained
    i:g              hash    key -> number of jobs that are interested                   count 0
    idle:g           zset    key -> last use (ms); the entries without interest          pin, evict
    c:ref            hash    a live claim: state, token, attempt, nonce, request ...     publish, fail
    w:ref            set     runs that wait for the claim                                becomes t:*
    t:ref:token      set     waiters of a finished claim that are still to be told       told
    told             list    ref:token of those sets, oldest first                       told
    sources          hash    epoch of sources -> number of claims that carry it          last of them ends
    running          zset    ref -> deadline of the running claim (ms)                   publish, fail
    queue:NAME       zset    ref -> place in the fair order                              take
    f:ref            hash    error, expires_ms of a failure                              PEXPIRE
    d:nonce          string  what a delivery took, so that a re-sent take answers alike  PEXPIRE
    jobs             zset    job -> when its last member's lease is over (ms)            end
    j:job            hash    incarnation, mode, priority, owner, floor, fp:*, tag:*      end
    m:job            zset    member -> its lease deadline (ms)                           end
    map:run          hash    key -> g i | g f(0|1)error : the job's answers              becomes g:*
    n:run            stream  notices: k = key                                            end
    g:run            hash    the map of an ended job, being drained                      drained
    x:run            string  how (k|c) and by whom a job was ended while members live     PEXPIRE
    graves           list    runs whose maps are drained, k|c first (keep or cancel)     drained
    tombs            zset    path -> condemned at (ms)                                   sweep
    deleting         zset    path -> marked at (ms): the object goes, nobody takes it back  swept
    coming           zset    path -> until when (ms) that place is kept for a bundle that is imported   adopt
    purges           stream  purge requests: request, job, incarnation                   answered
    asked:request    string  '' or the generation that answers the request               PEXPIRE
    report:g         string  JSON report of the purge that opened g                      7 days
    purge_log        stream  one row a purge: generation, removed, kept, requests        trimmed

Farm-wide, under a tag of their own:

    identity         hash    farm_id, schema                                             never
    namespaces       set     every namespace that was opened                             never
    toolchains       hash    name.fingerprint -> what it is and offers                   never
    first_seen       hash    name.fingerprint -> when it was first registered (ms)       never
    defaults         hash    name -> fingerprint that new jobs shall use                 unset
    workers          hash    worker -> row: slots, queues, host, pid                     lease
    served           hash    worker -> its slots and queues, as they are counted in slots    lease
    slots            hash    queue -> how many compiles at a time its workers can run    their leases
    worker_leases    zset    worker -> its lease deadline (ms)                           lease
    watch            hash    when the last tick of a leader was, and which run of the server it saw
    watch:leader     hash    the same of the tick that a leader is in                     its end, PEXPIRE
    chores           hash    chore (rebuild) -> id of the last ask, and of the last one done
    leader           hash    name, deadline_ms, term of the coordinator that leads       never
    source_epoch     string  the epoch into which sources are put now                    never
    in_force         hash    min_idle_ms; faults:cache -> what does not count in its op_cache.ini
    plans            zset    Celery-only submission -> when to look at it (ms)           hold over
    plan:id          hash    manifest, options, progress, answer of such a submission    PEXPIRE
"""

from __future__ import annotations

from farm.namespace import Namespace

#: Raised when a key or a record changes its shape; an index of another version is refused.
SCHEMA_VERSION = 1


def prefix(namespace: Namespace) -> str:
    """The prefix that all keys of a namespace share, hash tag included."""
    return f"opfarm:{{{namespace}}}:"


def meta(namespace: Namespace) -> str:
    """The only key a script is given; the others are built from its prefix."""
    return prefix(namespace) + "meta"


#: Farm-wide keys, under a tag of their own.
FARM = "opfarm:{farm}:"
IDENTITY = FARM + "identity"
NAMESPACES = FARM + "namespaces"
TOOLCHAINS = FARM + "toolchains"
FIRST_SEEN = FARM + "first_seen"
DEFAULTS = FARM + "defaults"
WORKERS = FARM + "workers"
WORKER_LEASES = FARM + "worker_leases"
LEADER = FARM + "leader"
PLANS = FARM + "plans"
IN_FORCE = FARM + "in_force"
PLAN = FARM + "plan:"
WATCH = FARM + "watch"
CHORES = FARM + "chores"
#: The channel on which scripts call the coordinator: a purge was asked for, a limit was crossed.
WAKE_CHANNEL = "opfarm:wake"
