import { once } from 'node:events';
import { sendMany, sendOne } from './clients.ts';
import type { Figures, Order } from './load.ts';
import { sendStreams } from './streams.ts';

// A generator in a process of its own: takes one order, sends it, and tells what it saw and what it has cost.
const kinds = { one: sendOne, many: sendMany, streams: sendStreams };
const [order] = (await once(process, 'message')) as [Order]; // from load.ts
const before = process.cpuUsage();
const figures = await kinds[order.kind](order);
const { user, system } = process.cpuUsage(before);
const told: Figures = { ...figures, generatorCpuSeconds: (user + system) / 1e6 };
process.send?.(told, () => process.disconnect());
