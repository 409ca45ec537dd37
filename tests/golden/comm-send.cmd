stepcast comm send dgx-h100-superpod --group 0,8 --group 1,17 --group 4,12:1G --group 5,12:1G -b 1K -e 1G -f 1024
