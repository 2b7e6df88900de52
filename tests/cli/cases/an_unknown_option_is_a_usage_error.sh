fullbore bench "$PHOTOS" --batchsize 4
