"""transformers' vision and audio models, torchvision, timm, kornia, diffusers."""

from __future__ import annotations

import torch

from programs.cases import descend, numbers, program


@program("transformers/vit")
def vit():
    from transformers import ViTConfig, ViTForImageClassification

    torch.manual_seed(0)
    config = ViTConfig(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        image_size=16,
        patch_size=4,
    )
    model = ViTForImageClassification(config)
    images, labels = torch.randn(4, 3, 16, 16), torch.tensor([0, 1, 0, 1])
    return descend(model.parameters(), lambda: model(images, labels=labels).loss)


@program("transformers/clip")
def clip():
    from transformers import CLIPConfig, CLIPModel

    torch.manual_seed(0)
    size = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    text = {**size, "vocab_size": 64, "max_position_embeddings": 16, "eos_token_id": 2}
    model = CLIPModel(
        CLIPConfig(
            text_config=text, vision_config={**size, "image_size": 16, "patch_size": 4}, projection_dim=16
        )
    )
    images, ids = torch.randn(4, 3, 16, 16), torch.randint(3, 64, (4, 8))
    ids[:, -1] = 2
    return descend(
        model.parameters(), lambda: model(input_ids=ids, pixel_values=images, return_loss=True).loss
    )


@program("transformers/whisper")
def whisper():
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    torch.manual_seed(0)
    config = WhisperConfig(
        vocab_size=64, num_mel_bins=8, encoder_layers=1, decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2, d_model=16, encoder_ffn_dim=32, decoder_ffn_dim=32,
        max_source_positions=20,
        max_target_positions=20, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1,
    )  # fmt: skip
    model = WhisperForConditionalGeneration(config)
    sound, words = torch.randn(2, 8, 40), torch.randint(3, 64, (2, 6))
    return descend(model.parameters(), lambda: model(input_features=sound, labels=words).loss)


@program("transformers/wav2vec2")
def wav2vec2():
    from transformers import Wav2Vec2Config, Wav2Vec2ForCTC

    torch.manual_seed(0)
    config = Wav2Vec2Config(
        vocab_size=12, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32,
        conv_dim=(16, 16), conv_kernel=(10, 3), conv_stride=(5, 2), num_feat_extract_layers=2,
        num_conv_pos_embeddings=8, num_conv_pos_embedding_groups=2, mask_time_prob=0.0, layerdrop=0.0,
    )  # fmt: skip
    model = Wav2Vec2ForCTC(config)
    sound, words = torch.randn(2, 400), torch.randint(1, 12, (2, 4))
    return descend(model.parameters(), lambda: model(sound, labels=words).loss)


TORCHVISION = """alexnet vgg11 vgg11_bn resnet18 resnet50 resnext50_32x4d wide_resnet50_2 densenet121
squeezenet1_0 squeezenet1_1 mobilenet_v2 mobilenet_v3_small mobilenet_v3_large mnasnet0_5
shufflenet_v2_x0_5 efficientnet_b0 efficientnet_v2_s googlenet inception_v3 regnet_y_400mf
regnet_x_400mf convnext_tiny vit_b_16 swin_t swin_v2_t maxvit_t""".split()


def classify(name):
    def run():
        import torchvision

        torch.manual_seed(0)
        kwargs = {"aux_logits": False, "init_weights": True} if name in ("googlenet", "inception_v3") else {}
        side = {"inception_v3": 96, "vit_b_16": 224, "maxvit_t": 224}.get(name, 64)
        model = getattr(torchvision.models, name)(num_classes=5, **kwargs).eval()
        x = torch.randn(1, 3, side, side)
        return numbers(model(x))

    return run


for _name in TORCHVISION:
    program(f"torchvision/{_name}")(classify(_name))


@program("torchvision/resnet18 trained")
def resnet18():
    import torchvision

    torch.manual_seed(0)
    model = torchvision.models.resnet18(num_classes=3)
    x, y = torch.randn(6, 3, 32, 32), torch.tensor([0, 1, 2, 0, 1, 2])
    return descend(model.parameters(), lambda: torch.nn.functional.cross_entropy(model(x), y), steps=4)


@program("torchvision/fcn segmentation")
def fcn():
    from torchvision.models.segmentation import fcn_resnet50

    torch.manual_seed(0)
    model = fcn_resnet50(weights_backbone=None, num_classes=3).eval()
    return numbers(model(torch.randn(1, 3, 48, 48))["out"])


@program("torchvision/faster r-cnn")
def faster_rcnn():
    from torchvision.models.detection import fasterrcnn_mobilenet_v3_large_320_fpn

    torch.manual_seed(0)
    model = fasterrcnn_mobilenet_v3_large_320_fpn(weights=None, weights_backbone=None, num_classes=4).eval()
    found = model([torch.rand(3, 96, 96)])[0]
    return [float(len(found["boxes"])), *numbers(found["scores"])]


@program("torchvision/feature extraction")
def features():
    from torchvision.models import resnet18
    from torchvision.models.feature_extraction import create_feature_extractor, get_graph_node_names

    torch.manual_seed(0)
    model = resnet18().eval()
    names, _ = get_graph_node_names(model)
    extract = create_feature_extractor(model, ["layer1", "layer3.1.add"])
    found = extract(torch.randn(1, 3, 64, 64))
    return [float(len(names)), *numbers(found["layer1"]), *numbers(found["layer3.1.add"])]


@program("torchvision/transforms v2")
def transforms():
    from torchvision import tv_tensors
    from torchvision.transforms import v2

    torch.manual_seed(0)
    image = tv_tensors.Image(torch.randint(0, 256, (3, 40, 48), dtype=torch.uint8))
    boxes = tv_tensors.BoundingBoxes([[4, 5, 20, 30]], format="XYXY", canvas_size=(40, 48))
    change = v2.Compose(
        [
            v2.RandomResizedCrop((24, 24), antialias=True),
            v2.RandomHorizontalFlip(0.9),
            v2.ColorJitter(0.3, 0.3, 0.3),
            v2.GaussianBlur(3),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize([0.5] * 3, [0.25] * 3),
        ]
    )
    image, boxes = change(image, boxes)
    return [*numbers(image), *numbers(boxes)]


TIMM = """resnet18 resnet26d resnetv2_50 seresnet18 ecaresnet26t res2net50_26w_4s resnest14d skresnet18
dla34 densenet121 efficientnet_b0 tf_efficientnet_b0 mobilenetv3_small_050
mobilenetv4_conv_small mnasnet_small ghostnet_050 hrnet_w18_small regnetx_002 regnety_002
repvgg_a0 vgg11 xception41 inception_v4 convnext_atto convnextv2_atto convmixer_768_32
vit_tiny_patch16_224 deit_tiny_patch16_224 cait_xxs24_224 xcit_nano_12_p16_224
swin_tiny_patch4_window7_224 mixer_s32_224 gmlp_ti16_224 resmlp_12_224 poolformer_s12 pvt_v2_b0
levit_128s coat_lite_tiny crossvit_tiny_240 mobilevit_xxs edgenext_xx_small efficientformer_l1
nf_resnet50 eva02_tiny_patch14_224 tiny_vit_5m_224 fastvit_t8 repvit_m0_9 starnet_s1""".split()


def image_model(name):
    def run():
        import timm

        torch.manual_seed(0)
        model = timm.create_model(name, num_classes=5).eval()
        side = model.default_cfg["input_size"][-1] if model.default_cfg.get("fixed_input_size") else 64
        side = 96 if name == "inception_v4" else side  # its stem has no padding
        return numbers(model(torch.randn(1, 3, side, side)))

    return run


for _name in TIMM:
    program(f"timm/{_name}")(image_model(_name))


@program("timm/trained with its optimizer, schedule and average")
def timm_trained():
    import timm
    from timm.data.mixup import Mixup
    from timm.loss import SoftTargetCrossEntropy
    from timm.optim import create_optimizer_v2
    from timm.scheduler import CosineLRScheduler
    from timm.utils import ModelEmaV3

    torch.manual_seed(0)
    model = timm.create_model("resnet10t", num_classes=4)
    optimizer = create_optimizer_v2(model, opt="adamw", lr=1e-3, weight_decay=0.05)
    scheduler, average = CosineLRScheduler(optimizer, t_initial=6), ModelEmaV3(model, decay=0.9)
    import numpy

    numpy.random.seed(0)
    mix = Mixup(mixup_alpha=0.2, cutmix_alpha=0.0, num_classes=4)
    images, labels = torch.randn(8, 3, 32, 32), torch.arange(8) % 4
    losses = []
    for step in range(6):
        x, y = mix(images, labels)
        loss = SoftTargetCrossEntropy()(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step(step)
        average.update(model)
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    return [*losses, *numbers(average.module.eval()(images))]


@program("kornia/augmentation, filters and geometry")
def kornia_filters():
    import kornia

    torch.manual_seed(0)
    image = torch.rand(1, 3, 24, 24, requires_grad=True)
    edges = kornia.filters.sobel(kornia.filters.gaussian_blur2d(image, (5, 5), (1.0, 1.0)))
    turned = kornia.geometry.transform.rotate(image, torch.tensor([30.0]))
    hsv = kornia.color.rgb_to_hsv(image)
    loss = kornia.losses.ssim_loss(image, turned.detach(), 5) + edges.mean()
    loss.backward()
    return [loss.item(), *numbers(image.grad), *numbers(turned), *numbers(hsv)]


@program("diffusers/unet and scheduler")
def diffusion():
    from diffusers import DDIMScheduler, DDPMScheduler, UNet2DModel

    torch.manual_seed(0)
    model = UNet2DModel(
        sample_size=8, in_channels=1, out_channels=1, layers_per_block=1, block_out_channels=(16, 32),
        down_block_types=("DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D"),
        norm_num_groups=4, attention_head_dim=4,
    )  # fmt: skip
    schedule, clean = DDPMScheduler(num_train_timesteps=20), torch.randn(4, 1, 8, 8)
    noise, steps = torch.randn_like(clean), torch.tensor([0, 5, 10, 15])
    noisy = schedule.add_noise(clean, noise, steps)
    losses = descend(
        model.parameters(), lambda: torch.nn.functional.mse_loss(model(noisy, steps).sample, noise)
    )
    sampler, x = DDIMScheduler(num_train_timesteps=20), torch.randn(1, 1, 8, 8)
    sampler.set_timesteps(4)
    with torch.no_grad():
        for step in sampler.timesteps:
            x = sampler.step(model(x, step).sample, step, x).prev_sample
    return [*losses, *numbers(x)]
