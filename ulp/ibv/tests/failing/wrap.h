/* Functions that pass calls on, by what they say of a failure. REAL_OF(name, node) finds the real
 * one. */

/* Never fails. */
#define CALL(node, type, name, args, given)                                                                            \
    type name args                                                                                                     \
    {                                                                                                                  \
        static type(*real) args;                                                                                       \
        if (!real)                                                                                                     \
            real = REAL_OF(name, node);                                                                                \
        return real given;                                                                                             \
    }

#define VOID(node, name, args, given)                                                                                  \
    void name args                                                                                                     \
    {                                                                                                                  \
        static void(*real) args;                                                                                       \
        if (!real)                                                                                                     \
            real = REAL_OF(name, node);                                                                                \
        real given;                                                                                                    \
    }

/* A new object; NULL, and errno. */
#define CREATES(node, type, name, args, given)                                                                         \
    type name args                                                                                                     \
    {                                                                                                                  \
        static type(*real) args;                                                                                       \
        if (!real)                                                                                                     \
            real = REAL_OF(name, node);                                                                                \
        if (failing_now(#name)) {                                                                                      \
            failing_returns(-1);                                                                                       \
            return NULL;                                                                                               \
        }                                                                                                              \
        type made = real given;                                                                                        \
        failing_counts(made ? 1 : 0);                                                                                  \
        return made;                                                                                                   \
    }

/* The end of an object; one that fails leaves it. */
#define ENDS(node, name, args, given, failure)                                                                         \
    int name args                                                                                                      \
    {                                                                                                                  \
        static int(*real) args;                                                                                        \
        if (!real)                                                                                                     \
            real = REAL_OF(name, node);                                                                                \
        if (failing_now(#name))                                                                                        \
            return failing_returns(failure);                                                                           \
        int returned = real given;                                                                                     \
        failing_counts(returned ? 0 : -1);                                                                             \
        return returned;                                                                                               \
    }

#define ENDS_WELL(node, name, args, given)                                                                             \
    void name args                                                                                                     \
    {                                                                                                                  \
        static void(*real) args;                                                                                       \
        if (!real)                                                                                                     \
            real = REAL_OF(name, node);                                                                                \
        real given;                                                                                                    \
        failing_counts(-1);                                                                                            \
    }

/* A number, and errno. */
#define NUMBER(node, name, args, given, failure)                                                                       \
    int name args                                                                                                      \
    {                                                                                                                  \
        static int(*real) args;                                                                                        \
        if (!real)                                                                                                     \
            real = REAL_OF(name, node);                                                                                \
        if (failing_now(#name))                                                                                        \
            return failing_returns(failure);                                                                           \
        return real given;                                                                                             \
    }

/* -1 and errno, where there is something to be told. */
#define EVENT(node, name, args, given, fd)                                                                             \
    int name args                                                                                                      \
    {                                                                                                                  \
        static int(*real) args;                                                                                        \
        if (!real)                                                                                                     \
            real = REAL_OF(name, node);                                                                                \
        if (failing_has_news(fd) && failing_now(#name))                                                                \
            return failing_returns(-1);                                                                                \
        return real given;                                                                                             \
    }
