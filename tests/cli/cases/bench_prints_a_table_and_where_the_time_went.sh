fullbore bench "$PHOTOS" --batch-size 8 --epochs 2
