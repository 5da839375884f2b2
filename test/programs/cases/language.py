"""transformers: language models, their generation, and the Trainer."""

from __future__ import annotations

import tempfile

import torch

from programs.cases import descend, numbers, program

SIZES = {"vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
PLACES = {"max_position_embeddings": 64}


def tokens(batch=2, length=12, words=64):
    return torch.randint(3, words, (batch, length))


def fit_causal(config, make):
    torch.manual_seed(0)
    model = make(config)
    ids = tokens()
    losses = descend(model.parameters(), lambda: model(input_ids=ids, labels=ids).loss, lr=3e-3)
    model.eval()
    made = model.generate(ids[:1, :4], max_new_tokens=8, do_sample=False, pad_token_id=0)
    return [*losses, *map(float, made[0].tolist())]


@program("transformers/bert")
def bert():
    from transformers import BertConfig, BertForSequenceClassification

    torch.manual_seed(0)
    model = BertForSequenceClassification(BertConfig(**SIZES, **PLACES, intermediate_size=64, num_labels=3))
    ids, labels = tokens(4), torch.tensor([0, 1, 2, 1])
    mask = torch.ones_like(ids)
    mask[0, 8:] = 0
    return descend(model.parameters(), lambda: model(ids, attention_mask=mask, labels=labels).loss)


@program("transformers/roberta")
def roberta():
    from transformers import RobertaConfig, RobertaForMaskedLM

    torch.manual_seed(0)
    model = RobertaForMaskedLM(RobertaConfig(**SIZES, max_position_embeddings=80, intermediate_size=64))
    ids = tokens()
    labels = ids.masked_fill(torch.rand(ids.shape) < 0.7, -100)
    return descend(model.parameters(), lambda: model(ids, labels=labels).loss)


@program("transformers/gpt2")
def gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=64, n_positions=64, n_embd=32, n_layer=2, n_head=4, bos_token_id=1, eos_token_id=2
    )
    return fit_causal(config, GPT2LMHeadModel)


@program("transformers/gpt2 sampled and beams")
def gpt2_sampled():
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=64, n_positions=64, n_embd=32, n_layer=2, n_head=4, bos_token_id=1, eos_token_id=2
    )
    model = GPT2LMHeadModel(config).eval()
    ids = tokens(1, 4)
    beams = model.generate(ids, max_new_tokens=6, num_beams=3, pad_token_id=0)
    torch.manual_seed(1)
    drawn = model.generate(
        ids, max_new_tokens=6, do_sample=True, top_k=10, top_p=0.9, temperature=0.8, pad_token_id=0
    )
    return [*map(float, beams[0].tolist()), *map(float, drawn[0].tolist())]


@program("transformers/llama")
def llama():
    from transformers import LlamaConfig, LlamaForCausalLM

    return fit_causal(
        LlamaConfig(**SIZES, **PLACES, intermediate_size=64, num_key_value_heads=2), LlamaForCausalLM
    )


@program("transformers/mistral")
def mistral():
    from transformers import MistralConfig, MistralForCausalLM

    config = MistralConfig(**SIZES, **PLACES, intermediate_size=64, num_key_value_heads=2, sliding_window=8)
    return fit_causal(config, MistralForCausalLM)


@program("transformers/qwen2")
def qwen2():
    from transformers import Qwen2Config, Qwen2ForCausalLM

    config = Qwen2Config(**SIZES, **PLACES, intermediate_size=64, num_key_value_heads=2)
    return fit_causal(config, Qwen2ForCausalLM)


@program("transformers/gemma")
def gemma():
    from transformers import GemmaConfig, GemmaForCausalLM

    config = GemmaConfig(**SIZES, **PLACES, intermediate_size=64, num_key_value_heads=1, head_dim=8)
    return fit_causal(config, GemmaForCausalLM)


@program("transformers/phi")
def phi():
    from transformers import PhiConfig, PhiForCausalLM

    return fit_causal(PhiConfig(**SIZES, **PLACES, intermediate_size=64), PhiForCausalLM)


@program("transformers/gpt_neox")
def gpt_neox():
    from transformers import GPTNeoXConfig, GPTNeoXForCausalLM

    return fit_causal(GPTNeoXConfig(**SIZES, **PLACES, intermediate_size=64), GPTNeoXForCausalLM)


@program("transformers/mamba")
def mamba():
    from transformers import MambaConfig, MambaForCausalLM

    return fit_causal(
        MambaConfig(vocab_size=64, hidden_size=32, num_hidden_layers=2, state_size=4), MambaForCausalLM
    )


def fit_pair(model):
    source, target = tokens(), tokens(length=7)
    losses = descend(model.parameters(), lambda: model(input_ids=source, labels=target).loss)
    made = model.eval().generate(source[:1], max_new_tokens=5, do_sample=False)
    return [*losses, *map(float, made[0].tolist())]


@program("transformers/t5")
def t5():
    from transformers import T5Config, T5ForConditionalGeneration

    torch.manual_seed(0)
    config = T5Config(
        vocab_size=64, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, decoder_start_token_id=0
    )
    return fit_pair(T5ForConditionalGeneration(config))


@program("transformers/bart")
def bart():
    from transformers import BartConfig, BartForConditionalGeneration

    torch.manual_seed(0)
    config = BartConfig(
        vocab_size=64, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=64, max_position_embeddings=64,
    )  # fmt: skip
    return fit_pair(BartForConditionalGeneration(config))


@program("transformers/distilbert question answering")
def distilbert():
    from transformers import DistilBertConfig, DistilBertForQuestionAnswering

    torch.manual_seed(0)
    config = DistilBertConfig(vocab_size=64, dim=32, n_layers=2, n_heads=4, hidden_dim=64)
    model = DistilBertForQuestionAnswering(config)
    ids, start, end = tokens(), torch.tensor([1, 4]), torch.tensor([3, 6])
    return descend(model.parameters(), lambda: model(ids, start_positions=start, end_positions=end).loss)


@program("transformers/electra token classification")
def electra():
    from transformers import ElectraConfig, ElectraForTokenClassification

    torch.manual_seed(0)
    model = ElectraForTokenClassification(
        ElectraConfig(**SIZES, **PLACES, embedding_size=16, intermediate_size=64)
    )
    ids = tokens()
    return descend(model.parameters(), lambda: model(ids, labels=ids % 2).loss)


@program("transformers/saved and loaded")
def saved():
    from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(**SIZES, **PLACES, intermediate_size=64))
    ids = tokens()
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        model.save_pretrained(folder)
        again = AutoModelForCausalLM.from_pretrained(folder)
        torch.testing.assert_close(again(ids).logits, model(ids).logits)
        return numbers(again(ids).logits)


@program("transformers/trainer")
def trainer():
    from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

    torch.manual_seed(0)
    model = BertForSequenceClassification(BertConfig(**SIZES, **PLACES, intermediate_size=64, num_labels=2))
    ids = tokens(32)
    data = [{"input_ids": row, "labels": row[0] % 2} for row in ids]
    with tempfile.TemporaryDirectory() as folder:
        options = TrainingArguments(
            folder, max_steps=20, per_device_train_batch_size=8, learning_rate=3e-3, logging_steps=1,
            report_to=[], use_cpu=True, save_steps=10, seed=1, disable_tqdm=True,
        )  # fmt: skip
        fitted = Trainer(model=model, args=options, train_dataset=data, eval_dataset=data[:8])
        fitted.train()
        losses = [entry["loss"] for entry in fitted.state.log_history if "loss" in entry]
        losses.append(fitted.evaluate()["eval_loss"])
    if not losses[-1] < losses[0]:
        raise AssertionError(f"the loss does not fall: {losses}")
    return losses


@program("peft/lora")
def lora():
    from peft import LoraConfig, get_peft_model
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    base = LlamaForCausalLM(LlamaConfig(**SIZES, **PLACES, intermediate_size=64))
    model = get_peft_model(base, LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"]))
    ids = tokens()
    losses = descend(
        (p for p in model.parameters() if p.requires_grad),
        lambda: model(input_ids=ids, labels=ids).loss,
        lr=3e-2,
    )
    return [*losses, *numbers(model.merge_and_unload()(ids).logits)]


@program("sentence-transformers/encode and fit")
def sentences():
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling

    torch.manual_seed(0)
    pool = Pooling(8, "mean")
    states = torch.randn(2, 5, 8)
    mask = torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]])
    found = pool({"token_embeddings": states, "attention_mask": mask})["sentence_embedding"]
    assert SentenceTransformer is not None
    return numbers(found)
