import type { Route } from './api/route.ts';
import { accountRemovalRoutes } from './routes/account-removal.ts';
import { accountSettingsRoutes } from './routes/account-settings.ts';
import { accountRoutes } from './routes/accounts.ts';
import { auditRoutes } from './routes/audit.ts';
import { backendPauseRoutes } from './routes/backend-pauses.ts';
import { batchRoutes } from './routes/batches.ts';
import { developerKeyRoutes } from './routes/developer-keys.ts';
import { fileRoutes } from './routes/files.ts';
import { findRoutes } from './routes/find.ts';
import { fleetRoutes } from './routes/fleet.ts';
import { fleetHistoryRoutes } from './routes/fleet-history.ts';
import { guestKeyRoutes } from './routes/guest-keys.ts';
import { inferenceRoutes } from './routes/inference.ts';
import { keyRoutes } from './routes/keys.ts';
import { modelRoutes } from './routes/models.ts';
import { operatorBatchRoutes } from './routes/operator-batches.ts';
import { overageRoutes } from './routes/overage.ts';
import { pageRoutes } from './routes/pages.ts';
import { planRoutes } from './routes/plans.ts';
import { quotaRoutes } from './routes/quota.ts';
import { requestRoutes } from './routes/requests.ts';
import { retryRoutes } from './routes/retry-batch.ts';
import { settingsRoutes } from './routes/settings.ts';
import { topUpCodeRoutes } from './routes/top-up-codes.ts';
import { usageRoutes } from './routes/usage.ts';
import { webhookDeliveryRoutes } from './routes/webhook-deliveries.ts';
import { webhookRoutes } from './routes/webhooks.ts';

/** All routes of the public listener, in the order of the document (contract.md#a1-public-listener). */
export const routes: readonly Route[] = [
  ...inferenceRoutes,
  ...modelRoutes,
  ...requestRoutes,
  ...developerKeyRoutes,
  ...guestKeyRoutes,
  ...keyRoutes,
  ...fileRoutes,
  ...batchRoutes,
  ...retryRoutes,
  ...webhookRoutes,
  ...webhookDeliveryRoutes,
  ...quotaRoutes,
  ...overageRoutes,
  ...usageRoutes,
  ...planRoutes,
  ...accountRoutes,
  ...accountSettingsRoutes,
  ...auditRoutes,
  ...settingsRoutes,
  ...findRoutes,
  ...operatorBatchRoutes,
  ...fleetRoutes,
  ...fleetHistoryRoutes,
  ...accountRemovalRoutes,
  ...backendPauseRoutes,
  ...topUpCodeRoutes,
  ...pageRoutes,
];
