fullbore bench "$PHOTOS" --threads many
