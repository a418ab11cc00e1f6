package Drom::Startup; 1;
