import { shareProcess } from './share-process.ts';

await shareProcess(15);
