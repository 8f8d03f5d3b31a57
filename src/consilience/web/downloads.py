"""Handlers of files: exports, images and sounds of items, style sheet and script."""

from __future__ import annotations

from pathlib import Path

from starlette.requests import Request
from starlette.responses import FileResponse, Response

from consilience.web.exports import audit_table, csv_of, formats_of, gold_table, labels_file
from consilience.web.site import Site
from consilience.web.task_data import MEDIA, file_behind

__all__ = ["Downloads"]

_FORMATS = {
    "csv": "CSV", "parquet": "Parquet", "excel": "Excel", "label-studio": "Label Studio", "argilla": "Argilla",
    "doccano": "doccano", "prodigy": "Prodigy", "mturk": "Mechanical Turk",
}  # fmt: skip
_STATIC = {"review.css": "text/css; charset=utf-8", "review.js": "text/javascript; charset=utf-8"}


class Downloads(Site):
    """Files, and addresses for other browsers."""

    def export(self, request: Request) -> Response:
        """Show what can be exported."""
        return self._page(request, "")

    def invite(self, request: Request, fields: dict[str, str]) -> Response:
        """Show an address for one more browser."""
        address = f"http://{request.headers['host']}/open?token={self.keys.invite()}"
        return self._page(request, address)

    def _page(self, request: Request, invited: str) -> Response:
        formats = [(name, _FORMATS[name]) for name in formats_of(self.review)]
        return self.page(request, "export.html", formats=formats, store=self.review.store.path.name, invited=invited)

    def export_labels(self, request: Request) -> Response:
        """Send the final labels."""
        return _file(*labels_file(self.review, request.query_params.get("format", "csv")))

    def export_gold(self, request: Request) -> Response:
        """Send the decisions as known answers."""
        return _file("gold.csv", csv_of(gold_table(self.review)))

    def export_audit(self, request: Request) -> Response:
        """Send the audit log."""
        return _file("audit.csv", csv_of(audit_table(self.review), spreadsheet="spreadsheet" in request.query_params))

    def media(self, request: Request) -> Response:
        """Send an image or a sound of an item; the address has numbers only, so that no path comes from outside."""
        place = file_behind(self.review.tasks, request.path_params["n"], request.path_params["at"])
        if place is None:
            return self.message(
                request, "There is no such file", "It is missing, or not below the folder of the task data.", 404
            )
        return FileResponse(place, media_type=MEDIA[place.suffix.lower()])

    def static(self, request: Request) -> Response:
        """Send the style sheet or the script."""
        name = request.path_params["name"]
        if name not in _STATIC:
            return Response("There is no such file.\n", 404)
        content = (Path(__file__).parent / "static" / name).read_bytes()
        return Response(content, media_type=_STATIC[name], headers={"cache-control": "no-cache"})


def _file(name: str, content: bytes) -> Response:
    headers = {"content-disposition": f'attachment; filename="{name}"'}
    return Response(content, media_type="application/octet-stream", headers=headers)
