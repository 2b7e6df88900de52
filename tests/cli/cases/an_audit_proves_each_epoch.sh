FULLBORE_AUDIT=logs fullbore bench "$PHOTOS" --batch-size 7 --epochs 2 > bench.txt
fullbore audit logs
fullbore audit logs logs | tail -1
fullbore audit logs --json | grep -o '"is_proved":true'
