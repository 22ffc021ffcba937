/* Numbers that no descriptor has are closed and looked at, over and over, while connections come and go: none of them is ever there. */
#include "pair.h"

#define ROUNDS_EACH 40

/* The numbers behind the highest that this program has. */
static int strays(int from)
{
    int found = 0;

    for (int number = from; number < from + 8; number++)
        found += close(number) == 0;
    return found;
}

int main(void)
{
    int found = 0, wrong = 0;

    for (int number = 3; number < 1024; number++)
        close(number);
    for (int i = 0; i < 60; i++) {
        int port, listening = listener(&port), one = dial(port), other = accept(listening, NULL, NULL), last;

        CHECK(listening >= 0 && other >= 0);
        last = one > other ? one : other;
        last = last > listening ? last : listening;
        for (int round = 0; round < ROUNDS_EACH; round++) {
            uint8_t byte = (uint8_t)round, back = 0;

            CHECK(send(one, &byte, 1, 0) == 1 && recv(other, &back, 1, 0) == 1);
            wrong += back != byte;
            CHECK(send(other, &byte, 1, 0) == 1 && recv(one, &back, 1, 0) == 1);
            wrong += back != byte;
            for (int more = 0; more < 5; more++)
                found += strays(last + 1);
        }
        close(one);
        close(other);
        close(listening);
    }
    printf("%d wrong, %d found\n", wrong, found);
    return 0;
}
