"""PyTorch on the CPU: the losses are equal to the last bit."""

import hashlib

import torch

STEPS = 400

torch.manual_seed(5)
torch.set_num_threads(2)
features = torch.randn(4096, 64)
wanted = torch.sin(features @ torch.randn(64, 4))
model = torch.nn.Sequential(
    torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Dropout(0.1), torch.nn.Linear(256, 4)
)
optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
losses, held = [], []
for _ in range(STEPS):
    batch = torch.randint(0, len(features), (256,))
    loss = torch.nn.functional.mse_loss(model(features[batch]), wanted[batch])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(float(loss.detach()).hex())
    held.append(model(features[:512]).detach().repeat(1, 16))
digest = hashlib.sha256(torch.stack(held).numpy().tobytes()).hexdigest()
print("training", losses[::25], losses[-1], hashlib.sha256("".join(losses).encode()).hexdigest())
print(digest)
