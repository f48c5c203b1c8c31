-- One database and one account for each service that keeps state: nobody reads another service's tables.
-- Run once, by psql (14 or newer) on an empty server; the passwords come from its environment.
\set ON_ERROR_STOP on
\getenv curator_password CURATOR_PASSWORD
\getenv search_password SEARCH_PASSWORD
\getenv planner_password PLANNER_PASSWORD
\getenv validator_password VALIDATOR_PASSWORD
\getenv evidence_password EVIDENCE_PASSWORD
\getenv gateway_password GATEWAY_PASSWORD

CREATE ROLE curator LOGIN PASSWORD :'curator_password';
CREATE ROLE search LOGIN PASSWORD :'search_password';
CREATE ROLE planner LOGIN PASSWORD :'planner_password';
CREATE ROLE validator LOGIN PASSWORD :'validator_password';
CREATE ROLE evidence LOGIN PASSWORD :'evidence_password';
CREATE ROLE gateway LOGIN PASSWORD :'gateway_password';

CREATE DATABASE curator OWNER curator;
CREATE DATABASE search OWNER search;
CREATE DATABASE planner OWNER planner;
CREATE DATABASE validator OWNER validator;
CREATE DATABASE evidence OWNER evidence;
CREATE DATABASE gateway OWNER gateway;

-- For document collections with the backend PGVECTOR, where the server has pgvector. Only a superuser may install it.
\connect search
SELECT 'CREATE EXTENSION vector' FROM pg_available_extensions
  WHERE name = 'vector' AND current_setting('is_superuser') = 'on' \gexec
\connect postgres

REVOKE CONNECT ON DATABASE curator, search, planner, validator, evidence, gateway FROM PUBLIC;
