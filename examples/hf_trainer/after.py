"""A small vision transformer with the Hugging Face Trainer; checkpoints every other step, and goes on from the last one.

    python after.py FOLDER CHECKPOINTS [--steps N] [--resume]        torchrun: the same
"""

import argparse

import fullbore as fb
from fullbore.torch import trainer_callback
from transformers import Trainer, TrainingArguments, ViTConfig, ViTForImageClassification


class LoaderTrainer(Trainer):
    def get_train_dataloader(self):
        return self.train_dataset


def named(batch):
    return batch.as_dict(image="pixel_values", label="labels")


def main(options):
    data = fb.Loader(options.folder, batch_size=4, shuffle=True, batch_map=named,
                     transforms=[fb.Resize((32, 32)), fb.Normalize([0.5], [0.25])])
    model = ViTForImageClassification(ViTConfig(image_size=32, patch_size=8, hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
                                                intermediate_size=64, num_labels=len(data.classes)))
    arguments = TrainingArguments(options.checkpoints, num_train_epochs=2, max_steps=options.steps, per_device_train_batch_size=4,
                                  save_steps=2, use_cpu=True, report_to=[], disable_tqdm=True, dataloader_num_workers=2,
                                  remove_unused_columns=False, ignore_data_skip=True)
    trainer = LoaderTrainer(model, arguments, train_dataset=data, callbacks=[trainer_callback(data)])
    trainer.train(resume_from_checkpoint=options.resume)
    print(f"{trainer.state.global_step} steps, epoch {trainer.state.epoch}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("checkpoints")
    parser.add_argument("--steps", type=int, default=-1)
    parser.add_argument("--resume", action="store_true")
    main(parser.parse_args())
