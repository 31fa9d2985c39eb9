import { join } from 'node:path';
import { findProgram, unpackByApt } from '../../stack/install-by-apt.ts';
import { provideFolder } from '../../stack/python-environment.ts';

export type Programs = { prometheus: string; promtool: string };

/** Prometheus and promtool of this machine, or else those of Debian's package. Throws if neither can be had. */
export async function providePrometheus(): Promise<Programs> {
  const [prometheus, promtool] = await Promise.all(['prometheus', 'promtool'].map(findProgram));
  if (prometheus !== undefined && promtool !== undefined) return { prometheus, promtool };
  const unpacked = await provideFolder({ name: 'prometheus', content: ['prometheus'] }, async (folder) => {
    await unpackByApt(['prometheus'], folder).catch((cause: unknown) => {
      throw new Error('Prometheus is missing, and apt could not download it: install prometheus.', { cause });
    });
  });
  return { prometheus: join(unpacked, 'usr/bin/prometheus'), promtool: join(unpacked, 'usr/bin/promtool') };
}
