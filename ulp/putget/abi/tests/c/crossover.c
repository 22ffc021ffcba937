/* Prints up to how many bytes puts and gets go in messages here; the error's number if the process
 * cannot be opened. */
#include <ferriband_putget.h>
#include <stdio.h>

int main(void)
{
    ferriband_putget_t *putget;
    size_t put, get;
    int error = ferriband_putget_open("127.0.0.1", 0, &putget);
    if (error) {
        printf("error %d\n", error);
        return 0;
    }
    ferriband_putget_crossover(putget, &put, &get);
    printf("%zu %zu\n", put, get);
    ferriband_putget_close(putget);
    return 0;
}
