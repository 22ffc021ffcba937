/* Choices that look random, and are the same at all ranks as long as all make the same ones. */
#ifndef RANDOM_H
#define RANDOM_H

static unsigned state = 1;

/* From 0 to before `below`. */
static unsigned any(unsigned below)
{
	state = state * 1664525 + 1013904223;
	return (unsigned)(((unsigned long long)state * below) >> 32);
}

/* All lengths to before `longest`, and those more often where something else begins. */
static int some_length(int longest)
{
	static const int edges[] = { 1, 8, 40, 41, 512, 1024, 1025, 4096, 8192, 16384, 16385, 32768, 65536, 65537 };
	int edge = edges[any(sizeof edges / sizeof *edges)];
	switch (any(4)) {
	case 0:
		return (int)any(200);
	case 1:
		return (int)any((unsigned)longest);
	default:
		return edge - (int)any(2);
	}
}

#endif
