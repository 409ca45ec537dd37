stepcast validate runs --filter sc21t2 --format csv --check | cut -d, -f2,6,7,8; stepcast validate memory --filter torchtune --format csv --check | cut -d, -f2
