fullbore bench "$PHOTOS" --device cuda:0
