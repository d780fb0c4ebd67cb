"""Prepares Superset's own database and imports the assets: run by Superset's interpreter (start.py).

    python deploy/superset/load.py ASSETS PASSWORD_FILE

Runs at each start: it replaces the assets of the last start. Charts and dashboards that users made stay.
"""

from __future__ import annotations

import sys
from pathlib import Path

from flask_migrate import upgrade
from superset.app import create_app

ADMIN = "admin"


def main(assets: Path, password_file: Path) -> None:
    """Migrate the database, make roles and the administrator, import every file below `assets`."""
    app = create_app()
    with app.app_context():
        upgrade()
        # These need the application.
        from superset import appbuilder, db, security_manager
        from superset.commands.importers.v1.assets import ImportAssetsCommand
        from superset.utils.core import override_user

        appbuilder.add_permissions(update_perms=True)
        security_manager.sync_role_definitions()
        if security_manager.find_user(ADMIN) is None:
            added = security_manager.add_user(
                ADMIN,
                *("Admin", "firstflight", "admin@localhost.invalid"),
                security_manager.find_role("Admin"),
                password=password_file.read_text(encoding="utf-8").strip(),
            )
            if not added:
                raise SystemExit("superset: the administrator could not be added to its database")
        contents = {
            str(path.relative_to(assets)): path.read_text(encoding="utf-8")
            for path in sorted(assets.rglob("*.yaml"))
        }
        with override_user(security_manager.find_user(ADMIN)):
            ImportAssetsCommand(contents).run()
        db.session.commit()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
