cp -r "$PHOTOS" mine
head -c 1500 "$PHOTOS/cat/00.jpg" >mine/cat/00.jpg
fullbore bench mine
