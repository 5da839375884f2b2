"""Networks whose training step is timed."""

# Residual network of 18 layers (He et al. 2015), table 1, on small images.
RESNET = """
nn, F = torch.nn, torch.nn.functional
torch.manual_seed(0)
class Block(nn.Module):
    def __init__(self, inside, out, stride):
        super().__init__()
        self.first = nn.Sequential(
            nn.Conv2d(inside, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out), nn.ReLU())
        self.second = nn.Sequential(nn.Conv2d(out, out, 3, 1, 1, bias=False), nn.BatchNorm2d(out))
        self.shortcut = nn.Identity() if inside == out and stride == 1 else nn.Sequential(
            nn.Conv2d(inside, out, 1, stride, bias=False), nn.BatchNorm2d(out))
    def forward(self, x):
        return F.relu(self.second(self.first(x)) + self.shortcut(x))
sizes = [(64, 64, 1), (64, 64, 1), (64, 128, 2), (128, 128, 1),
         (128, 256, 2), (256, 256, 1), (256, 512, 2), (512, 512, 1)]
model = nn.Sequential(
    nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1),
    *(Block(*size) for size in sizes), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
x = torch.randn(4, 3, 112, 112); y = torch.randint(0, 1000, (4,))
def step():
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad(); loss.backward(); optimizer.step()
"""
LSTM = """
nn = torch.nn
torch.manual_seed(0)
model = nn.LSTM(128, 128)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x = torch.randn(32, 16, 128)
def step():
    loss = model(x)[0].square().mean()
    optimizer.zero_grad(); loss.backward(); optimizer.step()
"""
TINY = """
nn = torch.nn
torch.manual_seed(0)
layer = nn.Linear(4, 4)
x = torch.randn(2, 4)
parameters = [torch.randn(4, 4).requires_grad_() for _ in range(20)]
for p in parameters:
    p.grad = torch.randn(4, 4)
optimizer = torch.optim.SGD(parameters, lr=0.01)
no_grad = torch.no_grad
"""
