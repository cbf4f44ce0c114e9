"""The project in which the everyday commands make sense."""

from __future__ import annotations

from pathlib import Path

from tests.unit.permissions.attack_scenes import Scene, git, repository, tools, write

FILES = {
    "README.md": "# app\n\n## Install\n\nfoo, main, v1.2\n",
    "pyproject.toml": '[project]\nname = "app"\nversion = "1.0.0"\n[tool.pytest.ini_options]\n',
    "package.json": (
        '{"name": "app", "version": "1.0.0", "scripts": {"test": "x"}, "dependencies": {},'
        ' "devDependencies": {}}\n'
    ),
    "Makefile": "all:\n\ttrue\n",
    "Dockerfile": "FROM scratch\n",
    ".gitignore": "node_modules\n*.pyc\nlogs/\n",
    "requirements.txt": "requests\npytest\n",
    "notes.txt": "3 apples\n1 pear\n",
    "config/app.conf": "# comment\nhost: x\n",
    "data/users.csv": "id,name,age\n1,ada,36\n2,alan,41\n",
    "data/items.json": '[{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]\n',
    "logs/app.log": "10:00 app ERROR one\n10:01 app DEBUG two\n",
    "docs/guide.md": "# guide\n",
    "scripts/run.sh": "#!/bin/sh\n",
    "scripts/migrate.py": "print(1)\n",
    "src/app/__init__.py": "",
    "src/app/main.py": (
        'import os\n\n\ndef main() -> int:\n    print("foo")  # TODO\n    return 0\n'
    ),
    "src/app/models.py": "class User:\n    pass\n",
    "tests/test_main.py": (
        "from app.main import main\n\n\ndef test_main() -> None:\n    assert main() == 0\n"
    ),
    "node_modules/x/index.js": "module.exports = 1\n",
    "a.py": "x = 1\n",
}


def project(root: Path) -> Scene:
    home, work = root / "home" / "ada", root / "home" / "ada" / "work"
    write(home / ".ohmo" / "config.yaml", "{}\n", 0o600)
    write(home / ".ssh" / "id_rsa", "secret\n", 0o600)
    for name, text in FILES.items():
        write(work / name, text)
    repository(work)
    git(work, "add", "-A")
    git(work, "commit", "-qm", "fix: everything")
    git(work, "tag", "v1.0.0")
    write(work / "src" / "app" / "main.py", FILES["src/app/main.py"] + "\n\nmain()\n")
    return Scene(root, home, work, tools(root))
