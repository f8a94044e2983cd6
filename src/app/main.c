#include "app/app.h"

int main(int argc, char **argv)
{
  return ct_app_run(argc, argv);
}
