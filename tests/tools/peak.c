/* peak FILE COMMAND...: runs the command and appends the peak of its resident memory, as the kernel
 * counts it, to FILE: a line of bytes. Under mpiexec each rank appends one. */
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* Returns the exit status of the command that \a status describes. */
static int code_of(int status)
{
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int main(int argc, char **argv)
{
  int status;
  struct rusage use;
  if (argc < 3) return 2;
  pid_t child = fork();
  if (child < 0) return 99;
  if (child == 0) {
    execvp(argv[2], argv + 2);
    perror(argv[2]);
    _exit(99);
  }
  if (waitpid(child, &status, 0) != child || getrusage(RUSAGE_CHILDREN, &use) != 0) return 99;
  FILE *f = fopen(argv[1], "a");
  if (!f || fprintf(f, "%lld\n", use.ru_maxrss * 1024LL) < 0 || fclose(f) != 0) return 99;
  return code_of(status);
}
