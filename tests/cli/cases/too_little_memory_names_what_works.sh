fullbore bench "$PHOTOS" --batch-size 64 --memory 1MiB
