import { openStore } from '../../../shared/process/open-store.ts';
import { openMongoStore } from '../../../shared/store/mongo/mongo-store.ts';
import type { Store } from '../../../shared/store/records/store.ts';

/** Only a server that does not answer at all reaches them: on a busy machine, calls are slow. */
export const patientLimits = { callMs: 90_000, serverMs: 30_000, socketMs: 60_000, writeMs: 60_000 };

/** The store at this address, whose calls may take long. */
export async function openPatientStore(url: string): Promise<Store> {
  const log = { warn() {} };
  return url.startsWith('mongodb') ? openMongoStore(url, { log, limits: patientLimits }) : openStore(url, { log });
}
