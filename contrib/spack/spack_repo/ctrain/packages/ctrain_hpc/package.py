"""Recipe for Spack 1.0 and newer: `spack repo add contrib/spack/spack_repo/ctrain` in a clone, then
`spack install ctrain-hpc`.

It builds what the clone has committed on its branch main; a release adds a line with its tag.
"""

import os

from spack_repo.builtin.build_systems.autotools import AutotoolsPackage
from spack_repo.builtin.build_systems.cuda import CudaPackage

from spack.package import *

CLONE = os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 6))

# configure's name of a library, and Spack's
LIBRARIES = {
    "dnnl": "onednn",
    "hdf5": "hdf5",
    "yaml": "libyaml",
    "jansson": "jansson",
    "deflate": "libdeflate",
    "xxhash": "xxhash",
    "jpeg": "libjpeg-turbo",
    "png": "libpng",
    "lz4": "lz4",
    "zstd": "zstd",
    "blosc": "c-blosc",
    "blosc2": "c-blosc2",
}


class CtrainHpc(AutotoolsPackage, CudaPackage):
    """Trains neural networks data-parallel on all ranks of an MPI job, on CPUs and GPUs."""

    git = "file://" + CLONE

    license("MIT")

    version("main", branch="main", preferred=True)

    variant("openmpi", default=False, description="Open MPI; else the site's MPI, such as MPICH")

    depends_on("c", type="build")
    depends_on("cxx", type="build", when="+cuda")
    depends_on("autoconf@2.71:", type="build")
    depends_on("automake@1.16:", type="build")
    depends_on("libtool", type="build")
    depends_on("m4", type="build")
    depends_on("pkgconfig", type="build")

    depends_on("mpi@3:")
    depends_on("openmpi", when="+openmpi")
    for library in LIBRARIES.values():
        depends_on("onednn@2.6: cpu_runtime=omp" if library == "onednn" else library)

    depends_on("cuda@12:", when="+cuda")
    depends_on("cudnn@9:", when="+cuda")
    depends_on("nccl", when="+cuda")

    def configure_args(self):
        spec = self.spec
        mpi = spec["mpi"]
        args = ["CC=" + mpi.mpicc, "MPIEXEC=" + os.path.join(str(mpi.prefix.bin), "mpiexec")]
        args += ["--without-cunit"]
        args += ["--with-{0}={1}".format(*pair) for pair in self.prefixes()]
        if "+cuda" not in spec:
            return args + ["--without-cuda"]
        args += ["--with-{0}={1}".format(name, spec[name].prefix) for name in ("cuda", "cudnn", "nccl")]
        archs = [arch for arch in spec.variants["cuda_arch"].value if arch != "none"]
        if archs:
            args.append("--with-cuda-archs=" + ",".join(archs))
        return args

    def prefixes(self):
        return [(name, self.spec[library].prefix) for name, library in LIBRARIES.items()]
