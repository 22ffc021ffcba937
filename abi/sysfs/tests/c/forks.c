/*
 * Children of a process whose other threads look at our files at the fork: they never hang, look themselves, and go on with a
 * directory that their parent has open.
 */
#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHILDREN = 100 };

static volatile int stop;

static void check(int holds, const char *what)
{
	if (!holds) {
		printf("%s\n", what);
		fflush(stdout);
		_exit(1);
	}
}

static void look(void)
{
	DIR *dir = opendir("/sys/class/infiniband");
	char text[64];
	int entries = 0;

	check(dir != NULL, "opendir");
	while (readdir(dir))
		entries++;
	check(closedir(dir) == 0 && entries == 3, "entries");
	FILE *file = fopen("/sys/class/infiniband/ferri_lo/node_guid", "r");

	check(file && fgets(text, sizeof(text), file), "node_guid");
	fclose(file);
}

static void *looks(void *unused)
{
	while (!stop)
		look();
	return unused;
}

static void *changes(void *unused)
{
	char path[256];

	while (!stop)
		check(chdir("/sys/class/infiniband/ferri_lo") == 0 && getcwd(path, sizeof(path)), "chdir");
	return unused;
}

int main(void)
{
	DIR *kept = opendir("/sys/class/infiniband");
	pthread_t threads[3];
	char path[256];

	for (int nth = 0; nth < 3; nth++)
		check(pthread_create(&threads[nth], NULL, nth ? looks : changes, NULL) == 0, "pthread_create");
	for (int nth = 0; nth < CHILDREN; nth++) {
		pid_t pid = fork();
		int status;

		if (pid == 0) {
			alarm(20);
			look();
			check(readdir(kept) && getcwd(path, sizeof(path)), "what was open");
			if (nth & 1)
				exit(0);
			_exit(0);
		}
		check(waitpid(pid, &status, 0) == pid, "waitpid");
		check(!WIFSIGNALED(status), "a child hung");
		check(status == 0, "a child failed");
	}
	stop = 1;
	for (int nth = 0; nth < 3; nth++)
		pthread_join(threads[nth], NULL);
	return 0;
}
