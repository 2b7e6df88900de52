FULLBORE_AUDIT=logs fullbore bench "$PHOTOS" --batch-size 7 > bench.txt
printf 'X' | dd of="$(echo logs/*.audit)" bs=1 seek=300 conv=notrunc 2> dd.txt
fullbore audit logs
