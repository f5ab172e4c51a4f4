"""The paper's algorithms, naive and one sample at a time, written straight from its text.

Everything is a dense L x N matrix as in the paper: column i holds teacher i, zero where M is zero.
"""

import numpy as np
from scipy.optimize import minimize


def dense(row, class_lists, classes):
    """Return the paper's L x N matrix and mask M from one flat row of teacher outputs."""
    Z, M, k = np.zeros((len(classes), len(class_lists))), np.zeros((len(classes), len(class_lists))), 0
    for i, labels in enumerate(class_lists):
        for label in labels:
            j = list(classes).index(label)
            Z[j, i], M[j, i] = row[k], 1
            k += 1
    return Z, M


def temper(Z, M, T):
    """Softmax of every teacher's logits over its classes, at temperature T."""
    P = np.zeros_like(Z)
    for i in range(Z.shape[1]):
        known = M[:, i] == 1
        e = np.exp((Z[known, i] - Z[known, i].max()) / T)
        P[known, i] = e / e.sum()
    return P


def sd(P, M):
    """Naive extension of standard distillation: unknown classes get zero."""
    return P.mean(axis=1)


def ce_objective(u, P, M):
    """Cross-entropy of every teacher with q = softmax(u) restricted to its classes."""
    return sum(-(P[m, i] * (u[m] - np.log(np.exp(u[m]).sum()))).sum() for i, m in enumerate(M.T == 1))


def ce(P, M):
    """Minimise the convex objective over the logits with a general-purpose optimiser."""

    def gradient(u):
        g = np.zeros_like(u)
        for i, m in enumerate(M.T == 1):
            g[m] += np.exp(u[m]) / np.exp(u[m]).sum() - P[m, i]
        return g

    start = np.zeros(len(P))
    options = {"gtol": 1e-11, "maxiter": 5000}
    u = minimize(ce_objective, start, args=(P, M), jac=lambda u, *_: gradient(u), method="BFGS", options=options).x
    return np.exp(u - u.max()) / np.exp(u - u.max()).sum()


def mf_p_objective(u, v, P, M):
    """Squared Frobenius norm of the masked residual."""
    return ((M * (P - np.outer(u, v))) ** 2).sum()


def mf_p(P, M, tol=1e-3, max_iter=3000):
    """Algorithm 1 of the supplement."""
    L, N = P.shape
    u, v = np.zeros(L), np.ones(N)
    for _ in range(max_iter):
        old_u, old_v = u.copy(), v.copy()
        for j in range(L):
            u[j] = max(0, (M[j] * P[j] * v).sum() / (M[j] * v**2).sum())
        u /= u.sum()
        for i in range(N):
            v[i] = max(0, (M[:, i] * P[:, i] * u).sum() / (M[:, i] * u**2).sum())
        if np.sqrt(((u - old_u) ** 2).mean()) < tol and np.sqrt(((v - old_v) ** 2).mean()) < tol:
            break
    return u, v


def mf_lu_objective(u, v, c, Z, M, lam):
    """Masked residual of the logits plus the ridge."""
    return ((M * (Z - np.outer(u, v) - c)) ** 2).sum() + lam * ((u**2).sum() + (v**2).sum())


def mf_lu(Z, M, lam=0.01, tol=1e-3, max_iter=3000):
    """Algorithm 2 of the supplement."""
    L, N = Z.shape
    c = (M * Z).sum(axis=0) / M.sum(axis=0)
    u, v = np.zeros(L), np.ones(N)
    for _ in range(max_iter):
        old_u, old_v = u.copy(), v.copy()
        for j in range(L):
            u[j] = (M[j] * (Z[j] - c) * v).sum() / (lam + (M[j] * v**2).sum())
        for i in range(N):
            v[i] = max(0, (M[:, i] * (Z[:, i] - c[i]) * u).sum() / (lam + (M[:, i] * u**2).sum()))
        for i in range(N):
            c[i] = (M[:, i] * (Z[:, i] - u * v[i])).sum() / M[:, i].sum()
        if np.sqrt(((u - old_u) ** 2).mean()) < tol and np.sqrt(((v - old_v) ** 2).mean()) < tol:
            break
    return u, v, c


def mf_lf_objective(u, Z, M):
    """Squared error of the logits, with the optimal shift of each teacher."""
    total = 0.0
    for i, m in enumerate(M.T == 1):
        r = Z[m, i] - u[m]
        total += ((r - r.mean()) ** 2).sum()
    return total


def mf_lf(Z, M):
    """Least squares over (u, c) by numpy's lstsq on the explicit design; minimum norm."""
    L, N = Z.shape
    rows, target = [], []
    for i in range(N):
        known = np.flatnonzero(M[:, i])
        for j in known:
            row = np.zeros(L)
            row[j] += 1
            row[known] -= 1 / len(known)
            rows.append(row)
            target.append(Z[j, i] - Z[known, i].mean())
    return np.linalg.lstsq(np.array(rows), np.array(target), rcond=None)[0]
