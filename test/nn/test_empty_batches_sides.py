"""Attention and Transformer layers on batches and sequences without elements, compared with PyTorch."""

from sides import Scenarios

scenario = Scenarios()


def layers(torch, batch_first):
    nn = torch.nn
    encoder = nn.TransformerEncoderLayer(8, 2, 16, batch_first=batch_first)
    decoder = nn.TransformerDecoderLayer(8, 2, 16, batch_first=batch_first)
    whole = nn.Transformer(8, 2, 1, 1, 16, batch_first=batch_first)
    attention = nn.MultiheadAttention(8, 2, batch_first=batch_first)
    return encoder, decoder, whole, attention


@scenario
def shapes_and_gradients(torch):
    found = []
    for count, length in ((0, 3), (2, 0), (0, 0)):
        for batch_first in (True, False):
            encoder, decoder, whole, attention = layers(torch, batch_first)
            for mode in (True, False):
                for layer in (encoder, decoder, whole, attention):
                    layer.train(mode)
                x = torch.zeros((count, length, 8) if batch_first else (length, count, 8))
                out, weights = attention(x, x, x)
                found += [list(t.shape) for t in (encoder(x), decoder(x, x), whole(x, x), out, weights)]
                found.append(list(attention(x, x, x, need_weights=False)[0].shape))
            encoder(x).sum().backward()
            found.append(sum(p.grad.abs().sum().item() for p in encoder.parameters()))
    return found


@scenario
def masks(torch):
    encoder = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    return list(encoder(torch.zeros(0, 3, 8), torch.zeros(3, 3)).shape)


test_as_in_pytorch = scenario.test()
