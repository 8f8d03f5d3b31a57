"""Where the passes over data run: this process, streamed from disk, or a Dask cluster."""
