// Processes that a rank starts: each that calls MPI_Init is a job of its own, and the rank's job goes on.
#define _GNU_SOURCE
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int is_alone(void) {
    int size, rank, sum = 0, one = 1;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    return size == 1 && rank == 0 && sum == 1;
}

// A process of its own: what it has open is its own, too.
static int child(void) {
    int before[64], fd;
    for (fd = 3; fd < 64; fd++)
        before[fd] = fcntl(fd, F_GETFD);
    MPI_Init(NULL, NULL);
    int bad = !is_alone();
    MPI_Finalize();
    for (fd = 3; fd < 64; fd++)
        if (before[fd] >= 0 && fcntl(fd, F_GETFD) != before[fd]) {
            fprintf(stderr, "descriptor %d is another\n", fd);
            bad = 1;
        }
    return bad;
}

static void become_child(const char *self) {
    execl(self, self, "child", (char *)NULL);
    _exit(111);
}

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "";
    int status = 0, worst = 0, size, rank;
    pid_t pid = -1;
    if (!strcmp(how, "child"))
        return child();
    if (!strcmp(how, "alone")) {
        MPI_Init(&argc, &argv);
        status = !is_alone();
        MPI_Finalize();
        return status;
    }
    if (!strcmp(how, "fork"))
        pid = fork();
    if (!strcmp(how, "closed")) {
        pid = fork();
        if (!pid) {
            close_range(3, ~0U, 0);
            // Others have the numbers.
            for (int fd = 3; fd < 24; fd++)
                if (open("/dev/null", O_RDONLY) < 0)
                    _exit(112);
            become_child(argv[0]);
        }
    }
    MPI_Init(&argc, &argv);
    if (!pid) {
        status = !is_alone();
        MPI_Finalize();
        _exit(status);
    }
    if (!strcmp(how, "exec")) {
        pid = fork();
        if (!pid)
            become_child(argv[0]);
    }
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (waitpid(pid, &status, 0) != pid)
        status = -1;
    if (status)
        fprintf(stderr, "rank %d: its child ended with %#x\n", rank, status);
    MPI_Allreduce(&status, &worst, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    if (!rank)
        printf("children: %d ranks: %s\n", size, worst ? "WRONG" : "ok");
    MPI_Finalize();
    return worst != 0;
}
