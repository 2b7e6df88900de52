cp -r "$PHOTOS" mine
echo "<html>404 not found</html>" >mine/cat/00.jpg
fullbore bench mine
