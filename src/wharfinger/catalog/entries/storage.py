"""Databases and file systems: programs that wait for storage, or work the kernel."""

from wharfinger.catalog.program import Category, Program, loop

SQLITE, COREUTILS = {"sh": "dash", "sqlite3": "sqlite3"}, {"sh": "dash", "dd": "coreutils"}

_JOIN = (
    "select city, count(*), sum(amount), avg(amount) from purchase join customer "
    "on purchase.customer = customer.id where amount % 7 > 1 group by city order by 3"
)
_INSERT = "insert into entry (text) values (hex(randomblob(200)))"

STORAGE: tuple[Program, ...] = (
    Program(
        "sqlite-query",
        "sqlite",
        Category.DATABASE,
        loop(f'sqlite3 orders.db "{_JOIN}" >/dev/null'),
        ("sqlite3", "wharfinger.catalog.programs.database"),
        SQLITE,
        ("orders.db",),
    ),
    Program(
        "sqlite-insert",
        "sqlite",
        Category.DATABASE,
        loop(f'sqlite3 log.db "pragma synchronous=full; {_INSERT}; {_INSERT}; {_INSERT};"'),
        ("sqlite3", "wharfinger.catalog.programs.database"),
        SQLITE,
        ("log.db",),
    ),
    Program(
        "dd-synced",
        "dd",
        Category.STORAGE,
        loop("dd if=/dev/zero of=blocks.bin bs=64k count=32 conv=fsync status=none"),
        ("dd",),
        COREUTILS,
    ),
    Program(
        "dd-direct-writes",
        "dd",
        Category.STORAGE,
        loop("dd if=/dev/zero of=blocks.bin bs=16k count=12 oflag=dsync status=none"),
        ("dd",),
        COREUTILS,
    ),
    Program(
        "tar",
        "tar",
        Category.STORAGE,
        loop("tar -cf - tree | cat >/dev/null"),
        ("tar",),
        {"sh": "dash", "tar": "tar", "cat": "coreutils"},
        ("tree",),
    ),
    Program(
        "find",
        "find",
        Category.STORAGE,
        loop("find tree tree tree tree -name '*1*.txt' -size +1k -newer tree >/dev/null"),
        ("find",),
        {"sh": "dash", "find": "findutils"},
        ("tree",),
    ),
    Program(
        "copy-files",
        "cp",
        Category.STORAGE,
        loop("cp -r tree copied && rm -r copied"),
        ("cp",),
        {"sh": "dash", "cp": "coreutils", "rm": "coreutils"},
        ("tree",),
    ),
)
