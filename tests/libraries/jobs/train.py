#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""Trains with a library as its users do, on random weights and random data, and says at moments what its memory is (word.py of
tests/e2e/jobs: "ready PID", "step N", until a line comes on stdin).

    train.py --job causal_lm --out said.json [--profiled]

--profiled: three steps under torch.profiler's memory profiler, then it ends; blocks: what that says, as categories.py of those
jobs has it, and offset: the epoch minus CLOCK_MONOTONIC.

Each function is one job. Nothing is downloaded: models are made from their configurations. MT_DEVICE=cuda: on the GPU.
"""
import argparse
import gc
import os
import pathlib
import sys
import time
import warnings

os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", TOKENIZERS_PARALLELISM="false", DISABLE_TELEMETRY="1")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "e2e" / "jobs"))
warnings.simplefilter("ignore")

if "MT_STUB_BACKEND" in os.environ:
    import cuda_on_host  # noqa: E402, F401  (before torch)
import torch  # noqa: E402
from torch.profiler import ProfilerActivity, profile  # noqa: E402

import categories  # noqa: E402
from word import DEVICE, Word  # noqa: E402


def torchvision_for_the_cpu():
    """PyPI's torchvision is built for CUDA: beside a torch for the CPU its operators cannot be loaded, and it does not start
    without two of them. None is called here, so it is enough that they have a name."""
    import importlib.util

    at = importlib.util.find_spec("torchvision").submodule_search_locations[0]
    try:
        torch.ops.load_library(f"{at}/_C.so")
    except OSError:
        names = torch.library.Library("torchvision", "DEF")
        names.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        names.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        return names
    return None


class Profiled(Word):
    """Says what the profiler says, too."""

    def goes_on(self):
        goes_on = super().goes_on()
        if self.steps == 5:
            self.moments.clear()
            self.offset = time.time_ns() - time.monotonic_ns()
            self.profiler = profile(activities=[ProfilerActivity.CPU], record_shapes=True, profile_memory=True, with_stack=True)
            self.profiler.__enter__()
        if self.steps < 8:
            return goes_on
        self.profiler.__exit__(None, None, None)
        return False

    def document(self):
        return super().document() | {"offset": self.offset,
                                     "blocks": categories.keyed_blocks(self.profiler._memory_profile(), "cpu")}


def by_hand(word, model, batch, optimizer=None):
    """The loop that everybody writes."""
    model.train()
    optimizer = optimizer or torch.optim.AdamW(model.parameters(), lr=1e-3)
    word.of(model, optimizer)
    while word.goes_on():
        optimizer.zero_grad()
        model(**batch()).loss.backward()
        optimizer.step()


# --- transformers ------------------------------------------------------------------------------------------

VOCABULARY = 2000


def tokens(*shape):
    return torch.randint(3, VOCABULARY, shape)


def text(batch=4, length=64):
    ids = tokens(batch, length)
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": ids.clone()}


def llama():
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(LlamaConfig(vocab_size=VOCABULARY, hidden_size=128, intermediate_size=352, num_hidden_layers=4,
                                        num_attention_heads=4, num_key_value_heads=2, use_cache=False))


def causal_lm(word, batch=4):
    by_hand(word, llama(), lambda: text(batch))


def encoder_decoder(word, batch=4):
    from transformers import T5Config, T5ForConditionalGeneration

    model = T5ForConditionalGeneration(T5Config(vocab_size=VOCABULARY, d_model=128, d_kv=32, d_ff=256, num_layers=2, num_heads=4,
                                                decoder_start_token_id=0, use_cache=False))
    by_hand(word, model, lambda: {"input_ids": tokens(batch, 48), "labels": tokens(batch, 24)})


def mixture_of_experts(word, batch=4):
    from transformers import MixtralConfig, MixtralForCausalLM

    model = MixtralForCausalLM(MixtralConfig(vocab_size=VOCABULARY, hidden_size=96, intermediate_size=192, num_hidden_layers=3,
                                             num_attention_heads=4, num_key_value_heads=2, num_local_experts=4, use_cache=False,
                                             output_router_logits=True))
    by_hand(word, model, lambda: text(batch))


def state_space(word, batch=4):
    from transformers import MambaConfig, MambaForCausalLM

    model = MambaForCausalLM(MambaConfig(vocab_size=VOCABULARY, hidden_size=96, num_hidden_layers=3, state_size=8,
                                         use_cache=False))
    by_hand(word, model, lambda: {"input_ids": (ids := tokens(batch, 24)), "labels": ids})


def speech(word, batch=4):
    """Whisper: convolutions over a spectrum, then an encoder and a decoder."""
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    model = WhisperForConditionalGeneration(WhisperConfig(
        vocab_size=VOCABULARY, d_model=96, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=192, decoder_ffn_dim=192, max_source_positions=150, num_mel_bins=40,
        pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1, use_cache=False))
    by_hand(word, model, lambda: {"input_features": torch.randn(batch, 40, 300), "labels": tokens(batch, 16)})


class Texts(torch.utils.data.Dataset):
    def __len__(self):
        return 1 << 20

    def __getitem__(self, _):
        ids = tokens(48)
        return {"input_ids": ids, "labels": ids.clone()}


def trainer(word, **how):
    import tempfile

    from transformers import Trainer, TrainerCallback, TrainingArguments

    class Ends(TrainerCallback):
        def on_train_begin(self, args, state, control, model=None, optimizer=None, **_):
            word.of(model, getattr(optimizer, "optimizer", optimizer), keeps=lambda: [("sum of losses", made._tr_loss)])

        def on_step_begin(self, args, state, control, **_):
            control.should_training_stop = not word.goes_on()

    with tempfile.TemporaryDirectory() as out:
        args = TrainingArguments(out, per_device_train_batch_size=4, max_steps=10**6, logging_strategy="no", report_to="none",
                                 save_strategy="no", use_cpu=DEVICE == "cpu", disable_tqdm=True, dataloader_pin_memory=False, **how)
        made = Trainer(llama(), args, train_dataset=Texts(), callbacks=[Ends()])
        made.train()


def trainer_accumulates(word):
    trainer(word, gradient_accumulation_steps=3)


def trainer_with_workers(word):
    trainer(word, dataloader_num_workers=2)


# --- others ------------------------------------------------------------------------------------------------

def accelerate_bf16(word):
    from accelerate import Accelerator

    accelerator = Accelerator(mixed_precision="bf16", cpu=DEVICE == "cpu")
    inner = llama().train()
    plain = torch.optim.AdamW(inner.parameters(), lr=1e-3)
    model, optimizer = accelerator.prepare(inner, plain)
    word.of(inner, plain)
    while word.goes_on():
        with accelerator.accumulate(model):
            loss = model(**text()).loss
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()


def peft_lora(word):
    from peft import LoraConfig, get_peft_model

    model = get_peft_model(llama(), LoraConfig(r=8, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM"))
    by_hand(word, model, text, torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), lr=1e-3))


def timm_vit(word, batch=8):
    """With an average of the weights and mixed images."""
    import timm
    from timm.data import Mixup
    from timm.loss import SoftTargetCrossEntropy
    from timm.utils import ModelEmaV2

    model = timm.create_model("vit_tiny_patch16_224", img_size=64, depth=4, num_classes=10, drop_path_rate=0.1).train()
    average, loss_of = ModelEmaV2(model, decay=0.99), SoftTargetCrossEntropy()
    mix = Mixup(mixup_alpha=0.8, cutmix_alpha=1.0, num_classes=10)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    word.of(model, optimizer, averages=[average.module])
    while word.goes_on():
        images, targets = mix(torch.randn(batch, 3, 64, 64), torch.randint(0, 10, (batch,)))
        optimizer.zero_grad()
        loss_of(model(images), targets).backward()
        optimizer.step()
        average.update(model)


def timm_resnet(word, batch=4):
    """channels_last, SGD with momentum."""
    import timm

    model = timm.create_model("resnet18", num_classes=10).to(memory_format=torch.channels_last).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
    word.of(model, optimizer)
    while word.goes_on():
        images = torch.randn(batch, 3, 64, 64).to(memory_format=torch.channels_last)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(images), torch.randint(0, 10, (batch,))).backward()
        optimizer.step()


def lightning_module(word):
    import lightning

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.GELU(), torch.nn.LayerNorm(512),
                                           torch.nn.Linear(512, 512), torch.nn.GELU(), torch.nn.Linear(512, 64))

        def training_step(self, batch, _):
            x, y = batch
            return torch.nn.functional.cross_entropy(self.net(x), y)

        def configure_optimizers(self):
            self.optimizer = torch.optim.Adam(self.parameters(), lr=1e-3)
            return self.optimizer

        def on_train_start(self):
            word.of(self.net, self.optimizer)

        def on_train_batch_start(self, *_):
            if not word.goes_on():
                self.trainer.should_stop = True

    data = torch.utils.data.TensorDataset(torch.randn(4096, 256), torch.randint(0, 64, (4096,)))
    lightning.Trainer(max_epochs=-1, accelerator="cpu" if DEVICE == "cpu" else "gpu", devices=1, logger=False, enable_checkpointing=False, enable_progress_bar=False,
                      enable_model_summary=False, barebones=False).fit(
        Module(), torch.utils.data.DataLoader(data, batch_size=64, shuffle=True))


def diffusers_unet(word, batch=4):
    """Noise is what it learns to tell."""
    from diffusers import DDPMScheduler, UNet2DModel

    model = UNet2DModel(sample_size=32, block_out_channels=(32, 64), layers_per_block=1, norm_num_groups=8,
                        down_block_types=("DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D")).train()
    scheduler = DDPMScheduler(num_train_timesteps=1000)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    word.of(model, optimizer, keeps=lambda: [("noise", scheduler.alphas_cumprod)])
    while word.goes_on():
        images, noise = torch.randn(batch, 3, 32, 32), torch.randn(batch, 3, 32, 32)
        when = torch.randint(0, 1000, (batch,))
        optimizer.zero_grad()
        said = model(scheduler.add_noise(images, noise, when), when).sample
        torch.nn.functional.mse_loss(said, noise).backward()
        optimizer.step()


def graph_net(word):
    """PyTorch Geometric: two graph convolutions and attention over the neighbours."""
    from torch_geometric.nn import GATConv, GCNConv

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second, self.last = GCNConv(128, 512), GATConv(512, 128, heads=4), GCNConv(512, 16)

        def forward(self, x, edges):
            x = self.first(x, edges).relu()
            x = torch.nn.functional.elu(self.second(x, edges))
            return self.last(x, edges)

    x, edges, y = torch.randn(2000, 128), torch.randint(0, 2000, (2, 10000)), torch.randint(0, 16, (2000,))
    model = Net().train()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    word.of(model, optimizer, keeps=lambda: [("nodes", x), ("edges", edges), ("targets", y)])
    while word.goes_on():
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x, edges), y).backward()
        optimizer.step()


def sentences():
    from sentence_transformers import SentenceTransformer, models
    from transformers import BertConfig, BertModel

    class Bert(torch.nn.Module):
        """What models.Transformer does, without a tokenizer from elsewhere."""

        def __init__(self):
            super().__init__()
            self.bert = BertModel(BertConfig(vocab_size=VOCABULARY, hidden_size=128, num_hidden_layers=3, num_attention_heads=4,
                                             intermediate_size=256), add_pooling_layer=False)

        def forward(self, features):
            out = self.bert(input_ids=features["input_ids"], attention_mask=features["attention_mask"])
            return {**features, "token_embeddings": out.last_hidden_state}

        def get_word_embedding_dimension(self):
            return 128

    return SentenceTransformer(modules=[Bert(), models.Pooling(128), models.Normalize()], device=DEVICE)


def a_sentence(batch=8):
    ids = tokens(batch, 32)
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


def sentence_transformers_pairs(word):
    from sentence_transformers import losses

    model = sentences().train()
    loss_of = losses.MultipleNegativesRankingLoss(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    word.of(model, optimizer)
    while word.goes_on():
        optimizer.zero_grad()
        loss_of([a_sentence(), a_sentence()], None).backward()
        optimizer.step()


# --- services ----------------------------------------------------------------------------------------------

def generate(word):
    model = llama().eval()
    model.config.use_cache = True
    word.of(model, saves=False)
    while word.goes_on():
        ids = tokens(2, 16)
        model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=8, do_sample=False, pad_token_id=0)
        word.at("step")


def embedding(word):
    model = sentences().eval()
    word.of(model, saves=False)
    while word.goes_on():
        with torch.inference_mode():
            vectors = model(a_sentence())["sentence_embedding"]
        word.at("step")
        del vectors


PLACED = {"trainer_accumulates", "trainer_with_workers", "lightning_module"}  # by the library: batches are made on the CPU

JOBS = {f.__name__: f for f in (causal_lm, encoder_decoder, mixture_of_experts, state_space, speech, trainer_accumulates,
                                trainer_with_workers, accelerate_bf16, peft_lora, timm_vit, timm_resnet, lightning_module,
                                diffusers_unet, graph_net, sentence_transformers_pairs, generate, embedding)}


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--job", required=True, choices=list(JOBS))
    p.add_argument("--out", required=True)
    p.add_argument("--profiled", action="store_true")
    args = p.parse_args()

    torch.set_num_threads(1)
    torch.manual_seed(0)
    if args.profiled:
        categories.note_births_always()
    word = Profiled() if args.profiled else Word()
    if DEVICE != "cpu" and args.job not in PLACED:
        torch.set_default_device(DEVICE)
    kept = torchvision_for_the_cpu()  # other libraries import it where it is there
    JOBS[args.job](word)
    word.write(args.out)
    del word, kept
    gc.collect()
    print("done", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
