import test from 'ava';
import { testRouteStatuses } from './route-statuses.ts';

testRouteStatuses({ test });
