# make -j2 of a C project of 60 files, which is then run.
set -eu
mkdir -p project
cd project
for i in $(seq 1 60); do
    printf '#include <math.h>\nlong f%d(long x) { for (int i = 0; i < %d; i++) x = x * 6364136223846793005L + %d + (long) sqrt(i); return x; }\n' "$i" "$((i * 1000))" "$i" >"f$i.c"
done
{
    echo '#include <stdio.h>'
    for i in $(seq 1 60); do echo "long f$i(long);"; done
    echo 'int main(void) { long x = 1;'
    for i in $(seq 1 60); do echo "x = f$i(x);"; done
    echo 'printf("build %ld\n", x); return 0; }'
} >main.c
{
    echo 'objects := $(patsubst %.c,%.o,$(wildcard *.c))'
    printf 'main: $(objects)\n\t@gcc -o $@ $^ -lm\n%%.o: %%.c\n\t@gcc -O2 -c -o $@ $<\n'
} >Makefile
make -s -j2
./main
