/* A rank that knows its launcher by PMI-1 alone: it speaks the protocol by itself, with no library.
 * The first argument says what it does; see main. Rank and size are those of the environment. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LINE = 4096 };

static int fd, rank, size;
static char name[LINE];

static void fail(const char *what)
{
	fprintf(stderr, "rank %d: %s\n", rank, what);
	exit(99);
}

static int number(const char *variable)
{
	const char *value = getenv(variable);
	if (!value)
		fail(variable);
	return atoi(value);
}

static void tell(const char *line)
{
	size_t length = strlen(line);
	if (write(fd, line, length) != (ssize_t)length)
		fail("the launcher takes no line");
}

static char next(void)
{
	static char bytes[LINE];
	static ssize_t at, count;
	if (at == count) {
		at = 0;
		count = read(fd, bytes, sizeof bytes);
		if (count <= 0)
			fail("the launcher says nothing");
	}
	return bytes[at++];
}

static void hear(char *line)
{
	for (size_t at = 0; at < LINE - 1; at++) {
		line[at] = next();
		if (line[at] == '\n') {
			line[at] = 0;
			return;
		}
	}
	fail("a line is endless");
}

/* The reply must be the one that is expected, without an error. */
static void ask(const char *command, const char *reply, char *line)
{
	char start[LINE];
	tell(command);
	hear(line);
	snprintf(start, sizeof start, "cmd=%s ", reply);
	if (strncmp(line, start, strlen(start)) || strstr(line, "rc=-1")) {
		fprintf(stderr, "rank %d: %s-> %s\n", rank, command, line);
		exit(99);
	}
}

static const char *field(const char *line, const char *key)
{
	static char value[LINE];
	char start[LINE];
	snprintf(start, sizeof start, " %s=", key);
	const char *at = strstr(line, start);
	if (!at)
		fail(key);
	snprintf(value, sizeof value, "%s", at + strlen(start));
	value[strcspn(value, " ")] = 0;
	return value;
}

static void barrier(void)
{
	char line[LINE];
	ask("cmd=barrier_in\n", "barrier_out", line);
}

static void begin(void)
{
	char line[LINE];
	ask("cmd=init pmi_version=1 pmi_subversion=1\n", "response_to_init", line);
	ask("cmd=get_my_kvsname\n", "my_kvsname", line);
	snprintf(name, sizeof name, "%s", field(line, "kvsname"));
}

static void end(void)
{
	char line[LINE];
	ask("cmd=finalize\n", "finalize_ack", line);
}

static void put(const char *key, const char *value)
{
	char command[3 * LINE], line[LINE];
	snprintf(command, sizeof command, "cmd=put kvsname=%s key=%s value=%s\n", name, key, value);
	ask(command, "put_result", line);
}

static const char *get(const char *key)
{
	static char line[LINE];
	char command[3 * LINE];
	snprintf(command, sizeof command, "cmd=get kvsname=%s key=%s\n", name, key);
	ask(command, "get_result", line);
	return field(line, "value");
}

/* All ranks learn the others' cards, some rounds long; each card is of the largest size. */
static void cards(void)
{
	char line[LINE], key[64], card[LINE];
	ask("cmd=get_maxes\n", "maxes", line);
	int longest = atoi(field(line, "vallen_max"));
	if (longest < 256 || longest >= LINE)
		fail("lengths");
	ask("cmd=get_appnum\n", "appnum", line);
	int program = atoi(field(line, "appnum"));
	ask("cmd=get_universe_size\n", "universe_size", line);
	if (atoi(field(line, "size")) < size)
		fail("the universe is smaller than the job");
	for (int round = 0; round < 10; round++) {
		memset(card, 'a' + (rank + round) % 26, longest);
		card[longest] = 0;
		snprintf(key, sizeof key, "card-%d-%d", round, rank);
		put(key, card);
		barrier();
		for (int other = 0; other < size; other++) {
			snprintf(key, sizeof key, "card-%d-%d", round, other);
			const char *found = get(key);
			if ((int)strlen(found) != longest || found[longest - 1] != 'a' + (other + round) % 26)
				fail("a card is another");
		}
	}
	barrier();
	end();
	printf("rank %d of %d, program %d: ok\n", rank, size, program);
}

/* More is asked than is ever read at once: answers fill the socket, and the launcher must neither
 * wait nor lose any. */
static void flood(void)
{
	enum { MANY = 2000 };
	static char line[LINE];
	char card[1001];
	begin();
	memset(card, 'x', 1000);
	card[1000] = 0;
	put("long", card);
	char command[3 * LINE];
	snprintf(command, sizeof command, "cmd=get kvsname=%s key=long\n", name);
	pid_t writer = fork();
	if (writer == 0) {
		for (int i = 0; i < MANY; i++)
			tell(command);
		_exit(0);
	}
	if (rank == 0)
		sleep(1);
	for (int i = 0; i < MANY; i++) {
		hear(line);
		if (strlen(field(line, "value")) != 1000)
			fail("an answer is another");
	}
	waitpid(writer, NULL, 0);
	barrier();
	end();
	printf("rank %d of %d: ok\n", rank, size);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "cards";
	int whom = argc > 2 ? atoi(argv[2]) : 0;
	fd = number("PMI_FD");
	rank = number("PMI_RANK");
	size = number("PMI_SIZE");
	if (!strcmp(what, "flood")) {
		flood();
		return 0;
	}
	if (!strcmp(what, "noise") && rank == whom) {
		/* The launcher may close the socket before all is written. */
		signal(SIGPIPE, SIG_IGN);
		for (int i = 0; i < 20000; i++)
			if (write(fd, "noise", 5) != 5)
				break;
		return 0;
	}
	begin();
	if (!strcmp(what, "cards")) {
		cards();
	} else if (!strcmp(what, "twice")) {
		cards();
		begin();
		cards();
	} else if (rank != whom) {
		barrier();
		end();
	} else if (!strcmp(what, "abort")) {
		tell("cmd=abort exitcode=7 msg=no mesh\n");
		/* The launcher ends this process. */
		pause();
	} else if (!strcmp(what, "over")) {
		tell("cmd=abort exitcode=0\n");
		abort();
	} else if (!strcmp(what, "kill")) {
		abort();
	} else if (!strcmp(what, "exit")) {
		return 5;
	} else if (!strcmp(what, "drop")) {
		return 0;
	} else if (!strcmp(what, "leave")) {
		end();
		return 0;
	} else if (!strcmp(what, "late")) {
		/* A child has the socket, and is the rank when this process has ended. */
		if (fork() == 0) {
			usleep(300000);
			barrier();
			end();
			puts("a child was the rank");
		}
		return 0;
	}
	return 0;
}
