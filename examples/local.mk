nobase_dist_pkgdata_DATA = \
  examples/gpt/README.md examples/gpt/train.yaml examples/gpt/make_data.sh \
  examples/digits/README.md examples/digits/LICENSE examples/digits/train.yaml examples/digits/augment.yaml \
  examples/digits/train-000.h5 examples/digits/train-001.h5 examples/digits/train-002.h5 examples/digits/train-003.h5 \
  examples/digits/val-000.h5 \
  examples/mnist/README.md examples/mnist/train.yaml \
  examples/cosmoflow/README.md examples/cosmoflow/train.yaml \
  examples/regression/README.md examples/regression/train.yaml \
  examples/finetune/README.md examples/finetune/base.yaml examples/finetune/finetune.yaml \
  examples/finetune/resnet50.yaml \
  examples/layers/README.md examples/layers/train.yaml \
  examples/sequence/README.md examples/sequence/train.yaml \
  examples/segmentation/README.md examples/segmentation/train.yaml examples/segmentation/make_data.py \
  examples/segmentation/train.h5 examples/segmentation/val.h5 \
  examples/inputs/README.md examples/inputs/train.yaml examples/inputs/make_data.py \
  examples/inputs/train.h5 examples/inputs/val.h5 \
  examples/unet2d/README.md examples/unet2d/train.yaml examples/unet2d/make_data.py examples/unet2d/oracle.py \
  examples/fields/README.md examples/fields/train.yaml examples/fields/make_data.py examples/fields/rollout.py \
  examples/deepcam/README.md examples/deepcam/train.yaml
