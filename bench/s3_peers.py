"""One pass over a bucket's objects through somebody else's client in a torch DataLoader: s3_peers.py boto3|s3torchconnector PREFIX WORKERS.

Prints one JSON object with the number of objects and bytes that came and the rate from the first to the last, workers' start excluded."""

from __future__ import annotations

import json
import os
import sys
import time

import torch.utils.data


class Boto(torch.utils.data.Dataset):
    def __init__(self, prefix: str) -> None:
        import boto3

        pages = boto3.client("s3").get_paginator("list_objects_v2").paginate(Bucket="bench", Prefix=prefix + "/")
        self.keys = [o["Key"] for page in pages for o in page["Contents"] if not o["Key"].rsplit("/", 1)[-1].startswith(".")]
        self.client = None

    def __len__(self) -> int:
        return len(self.keys)

    def __getitem__(self, i: int) -> int:
        if self.client is None:
            import boto3

            self.client = boto3.client("s3")
        return len(self.client.get_object(Bucket="bench", Key=self.keys[i])["Body"].read())


def connector(prefix: str) -> torch.utils.data.Dataset:
    from s3torchconnector import S3ClientConfig, S3MapDataset

    return S3MapDataset.from_prefix(f"s3://bench/{prefix}/class", region=os.environ["AWS_REGION"], endpoint=os.environ["AWS_ENDPOINT_URL"],
                                    transform=lambda o: len(o.read()), s3client_config=S3ClientConfig(force_path_style=True))


def main() -> int:
    peer, prefix, workers = sys.argv[1], sys.argv[2], int(sys.argv[3])
    data = Boto(prefix) if peer == "boto3" else connector(prefix)
    loader = torch.utils.data.DataLoader(data, batch_size=64, num_workers=workers, collate_fn=list)
    objects = size = 0
    start = 0.0
    first = 0
    for batch in loader:
        if not start:
            start, first = time.monotonic(), len(batch)
        objects += len(batch)
        size += sum(batch)
    print(json.dumps({"objects": objects, "bytes": size, "objects_per_second": (objects - first) / (time.monotonic() - start)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
