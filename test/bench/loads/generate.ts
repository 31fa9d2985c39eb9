import { once } from 'node:events';
import { sendMany, sendOne } from './clients.ts';
import type { Figures, Order } from './load.ts';
import { sendStreams } from './streams.ts';

// A generator in its own process: receives one load, sends it, and returns the figures and its own cost.
const kinds = { one: sendOne, many: sendMany, streams: sendStreams };
const [order] = (await once(process, 'message')) as [Order]; // from load.ts
const before = process.cpuUsage();
const figures = await kinds[order.kind](order);
const { user, system } = process.cpuUsage(before);
const measured: Figures = { ...figures, generatorCpuSeconds: (user + system) / 1e6 };
process.send?.(measured, () => process.disconnect());
