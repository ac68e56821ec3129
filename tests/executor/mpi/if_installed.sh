# shellcheck shell=sh
# if_installed.sh RANKS PROGRAM ARGUMENT…: runs the program in so many ranks. RANKS may be "kill": then kill.sh runs.
# Exit status 77, which ctest reports as skipped, where MPI is not installed.
ranks=$1
shift
if ! command -v mpirun >/dev/null || [ ! -e "$(dirname "$1")/libpipesim_mpi.so" ]; then
  echo "skipped: MPI is not installed (Debian packages openmpi-bin and libopenmpi-dev)"
  exit 77
fi
# Open MPI refuses to run as root and more ranks than cores unless told otherwise.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
[ "$ranks" != kill ] || exec bash "$(dirname "$0")/kill.sh" "$@"
exec mpirun -np "$ranks" "$@"
