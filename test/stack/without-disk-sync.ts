import { open } from 'node:fs/promises';

/*
 * Loaded into the processes of tests whose temporary files are on a disk (test/suite/temporary-folder.ts). A store waits until the disk has
 * its data. That matters only if the machine fails, which no test does, and on a busy disk it takes seconds.
 */
const handle = await open(import.meta.filename);
Object.assign(Object.getPrototypeOf(handle), { sync: async () => {}, datasync: async () => {} });
await handle.close();
